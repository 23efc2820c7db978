// Layers with experts that run again in the backward, without what nothing reads there (results of
// experts and their way home), change no bit: losses, gradient norms and weights after two steps
// with dropout, however tokens reach their experts.

#include <gtest/gtest.h>

#include "support/stream_run.h"

namespace viaduct {
namespace {

using namespace test;

struct ExpertRun {
  std::string name;
  Overrides layout;
};
void PrintTo(const ExpertRun& run, std::ostream* out) {
  *out << run.name;
}

class RecomputedExperts : public testing::TestWithParam<ExpertRun> {};

TEST_P(RecomputedExperts, ChangeNoBit) {
  const Overrides full{"model.recompute_granularity=full", "model.recompute_method=uniform"},
      one{"model.recompute_num_layers=1"};
  const std::pair<const char*, Overrides> policies[] = {
      {"each layer", full + one},
      {"two layers together", full + Overrides{"model.recompute_num_layers=2"}},
      {"segments apart", full + one + Overrides{"model.recompute_segments_apart=true"}},
      {"experts",
       {"model.recompute_granularity=selective", "model.recompute_modules=[moe, core_attn]"}}};
  const Overrides layout = Overrides{"model.num_moe_experts=4",       "model.moe_router_topk=2",
                                     "model.moe_ffn_hidden_size=16",  "model.num_layers=4",
                                     "model.moe_aux_loss_coeff=0.02", "model.hidden_dropout=0.1",
                                     "train.global_batch_size=8"} +
                           GetParam().layout;
  const StreamOutcome kept = train_on_streams({.layout = layout}, std::nullopt);
  ASSERT_FALSE(kept.states.empty());
  for (const auto& [name, policy] : policies)
    EXPECT_TRUE(train_on_streams({.layout = layout + policy}, std::nullopt).states == kept.states)
        << name;
}

const Overrides kGated{"model.family=qwen2_moe", "model.moe_shared_expert_intermediate_size=32"};
const Overrides kUngated{"model.family=deepseek_v2", "model.moe_shared_expert_intermediate_size=32",
                         "model.q_lora_rank=24",     "model.kv_lora_rank=16",
                         "model.qk_head_dim=12",     "model.qk_pos_emb_head_dim=8",
                         "model.v_head_dim=10"};
const Overrides kTwo{"dist.ranks=2", "model.expert_model_parallel_size=2"},
    kFour{"dist.ranks=4", "model.expert_model_parallel_size=4"},
    kBeside{"model.moe_shared_expert_overlap=true"},
    kTensor{"model.tensor_model_parallel_size=2", "model.expert_tensor_parallel_size=1"},
    kGathers{"model.moe_token_dispatcher_type=allgather"},
    kFused{"model.moe_token_dispatcher_type=flex"},
    kLimited{"model.moe_expert_capacity_factor=0.75"},
    kPadded{"model.moe_pad_expert_input_to_capacity=true"},
    kStages{"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
    kBf16{"mixed_precision=bf16_mixed"};

INSTANTIATE_TEST_SUITE_P(
    Layouts, RecomputedExperts,
    testing::Values(
        ExpertRun{"one_rank", kGated}, ExpertRun{"one_rank_without_gate", kUngated + kBf16},
        ExpertRun{"limited", kGated + kLimited},
        ExpertRun{"limited_and_padded", kGated + kLimited + kPadded + kTwo},
        ExpertRun{"exchanged", kGated + kTwo}, ExpertRun{"exchanged_bf16", kUngated + kTwo + kBf16},
        ExpertRun{"beside", kGated + kTwo + kBeside},
        ExpertRun{"beside_without_gate", kUngated + kTwo + kBeside},
        ExpertRun{"cut", kGated + Overrides{"dist.ranks=2", "model.expert_tensor_parallel_size=2",
                                            "model.expert_model_parallel_size=1"}},
        ExpertRun{"tensor", kUngated + kTwo + kTensor},
        ExpertRun{"gathered", kUngated + kTwo + kGathers},
        ExpertRun{"gathered_and_padded", kGated + kTwo + kGathers + kLimited + kPadded},
        ExpertRun{"fused", kGated + kTwo + kFused},
        ExpertRun{"by_domain",
                  kUngated + kFour + kFused + kBeside + Overrides{"dist.nvlink_domain_size=2"}},
        ExpertRun{"stages", kUngated + kStages},
        ExpertRun{"stages_exchanged",
                  kGated + kStages + kTwo +
                      Overrides{"dist.ranks=4", "model.pipeline_schedule=zero_bubble"}},
        ExpertRun{
            "sharded",
            kGated + kTwo + Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
