// A shared expert that runs while tokens are being exchanged changes no bit.

#include <gtest/gtest.h>

#include "support/stream_run.h"

namespace viaduct {
namespace {

using namespace test;

struct SharedExpertCase {
  std::string name;
  Overrides layout;
};
void PrintTo(const SharedExpertCase& c, std::ostream* out) {
  *out << c.name;
}

class SharedExpert : public testing::TestWithParam<SharedExpertCase> {};

TEST_P(SharedExpert, BesideTheExchangeHasTheSameBits) {
  StreamRun run{.layout = GetParam().layout + Overrides{"model.num_moe_experts=4",
                                                        "model.expert_model_parallel_size=2"}};
  const StreamOutcome in_turn = train_on_streams(run, std::nullopt);
  run.layout.push_back("model.moe_shared_expert_overlap=true");
  const StreamOutcome beside = train_on_streams(run, std::nullopt);
  ASSERT_FALSE(in_turn.states.empty());
  for (size_t rank = 0; rank < in_turn.states.size(); ++rank)
    EXPECT_TRUE(beside.states[rank] == in_turn.states[rank]) << "rank " << rank;
}

const Overrides kGated{"model.family=qwen2_moe", "model.moe_shared_expert_intermediate_size=32"};
const Overrides kDeepSeek{
    "model.family=deepseek_v2",     "model.moe_router_topk=2",
    "model.moe_ffn_hidden_size=16", "model.moe_shared_expert_intermediate_size=32",
    "model.q_lora_rank=24",         "model.kv_lora_rank=16",
    "model.qk_head_dim=12",         "model.qk_pos_emb_head_dim=8",
    "model.v_head_dim=10"};

INSTANTIATE_TEST_SUITE_P(
    Layouts, SharedExpert,
    testing::Values(
        SharedExpertCase{"data", kGated + Overrides{"dist.ranks=2"}},
        SharedExpertCase{"bf16", kGated + Overrides{"dist.ranks=2", "mixed_precision=bf16_mixed"}},
        SharedExpertCase{"tensor",
                         kGated + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                                            "model.expert_tensor_parallel_size=1"}},
        SharedExpertCase{"context_cut_experts",
                         kGated + Overrides{"dist.ranks=4", "model.context_parallel_size=2",
                                            "model.expert_tensor_parallel_size=2"}},
        SharedExpertCase{
            "recompute",
            kGated + Overrides{"dist.ranks=2", "model.recompute_granularity=full",
                               "model.recompute_method=uniform", "model.recompute_num_layers=1"}},
        SharedExpertCase{"zero_bubble",
                         kGated + Overrides{"dist.ranks=4", "train.global_batch_size=8",
                                            "model.pipeline_model_parallel_size=2",
                                            "model.pipeline_schedule=zero_bubble"}},
        SharedExpertCase{
            "sharded",
            kGated + Overrides{"dist.ranks=2",
                               "ddp.data_parallel_sharding_strategy=optim_grads_params"}},
        SharedExpertCase{"without_gate", kDeepSeek + Overrides{"dist.ranks=2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
