// Exchanges of experts' rows beside the compute of another micro-batch change no bit: losses,
// gradient norms and weights are those of the run that waits for each exchange.

#include <gtest/gtest.h>

#include "support/stream_run.h"

namespace viaduct {
namespace {

using namespace test;

const std::string kOverlap = "comm_overlap.overlap_moe_expert_parallel_comm=true",
                  kDelay = "comm_overlap.delay_wgrad_compute=true";

struct ExpertOverlapCase {
  std::string name;
  Overrides layout;
};
void PrintTo(const ExpertOverlapCase& c, std::ostream* out) {
  *out << c.name;
}

class ExpertOverlap : public testing::TestWithParam<ExpertOverlapCase> {};

TEST_P(ExpertOverlap, HasTheBitsOfTheRunThatWaits) {
  const Overrides layout =
      Overrides{"mixed_precision=bf16_mixed", "model.num_moe_experts=4",
                "model.expert_model_parallel_size=2", "train.global_batch_size=8"} +
      GetParam().layout;
  const StreamOutcome plain = train_on_streams({.layout = layout}, std::nullopt);
  for (const Overrides& more : {Overrides{kOverlap}, Overrides{kOverlap, kDelay}}) {
    const StreamOutcome beside = train_on_streams({.layout = layout + more}, std::nullopt);
    ASSERT_FALSE(plain.states.empty());
    for (size_t rank = 0; rank < plain.states.size(); ++rank)
      EXPECT_TRUE(beside.states[rank] == plain.states[rank])
          << "rank " << rank << ", " << more.back();
  }
}

const Overrides kMoe{"model.family=qwen3_moe", "model.moe_router_topk=2",
                     "model.moe_aux_loss_coeff=0.02"};
const Overrides kShared{"model.family=qwen2_moe", "model.moe_shared_expert_intermediate_size=32"};
const Overrides kDeepSeek{"model.family=deepseek_v3",
                          "model.moe_router_topk=2",
                          "model.moe_router_num_groups=2",
                          "model.moe_router_group_topk=1",
                          "model.moe_ffn_hidden_size=16",
                          "model.moe_shared_expert_intermediate_size=32",
                          "model.q_lora_rank=24",
                          "model.kv_lora_rank=16",
                          "model.qk_head_dim=12",
                          "model.qk_pos_emb_head_dim=8",
                          "model.v_head_dim=10"};
const Overrides kChunks{"model.pipeline_model_parallel_size=2",
                        "model.virtual_pipeline_model_parallel_size=2", "model.num_layers=4"};
// Four ranks in two domains.
const Overrides kDomains{"dist.ranks=4", "model.expert_model_parallel_size=4",
                         "model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=2"};

INSTANTIATE_TEST_SUITE_P(
    Layouts, ExpertOverlap,
    testing::Values(
        ExpertOverlapCase{"flex",
                          kMoe + Overrides{"dist.ranks=2", "model.moe_token_dispatcher_type=flex"}},
        ExpertOverlapCase{"quantized_rows",
                          kMoe + Overrides{"dist.ranks=2", "model.moe_token_dispatcher_type=flex",
                                           "model.moe_dispatch_fwd_dtype=mxfp8",
                                           "model.moe_combine_bwd_dtype=mxfp8"}},
        ExpertOverlapCase{"by_domain", kMoe + kDomains},
        ExpertOverlapCase{"by_domain_quantized_rows",
                          kMoe + kDomains +
                              Overrides{"model.moe_dispatch_fwd_dtype=mxfp8",
                                        "model.moe_combine_bwd_dtype=mxfp8"}},
        ExpertOverlapCase{"by_domain_shared_expert", kShared + kDomains},
        ExpertOverlapCase{"by_domain_recompute",
                          kMoe + kDomains +
                              Overrides{"model.recompute_granularity=selective",
                                        "model.recompute_modules=[core_attn, layernorm, mlp]"}},
        ExpertOverlapCase{"by_domain_interleaved",
                          kMoe + kDomains + kChunks +
                              Overrides{"dist.ranks=8", "dist.nvlink_domain_size=2",
                                        "train.global_batch_size=16"}},
        ExpertOverlapCase{"data", kMoe + Overrides{"dist.ranks=2"}},
        ExpertOverlapCase{"shared_expert", kShared + Overrides{"dist.ranks=2"}},
        ExpertOverlapCase{"parallel_block",
                          kShared + Overrides{"dist.ranks=2", "model.parallel_block=true",
                                              "model.parallel_block_shared_norm=true"}},
        ExpertOverlapCase{"tensor",
                          kMoe + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                                           "model.expert_tensor_parallel_size=1"}},
        ExpertOverlapCase{"context_cut_experts",
                          kMoe + Overrides{"dist.ranks=4", "model.context_parallel_size=2",
                                           "model.expert_tensor_parallel_size=2"}},
        ExpertOverlapCase{"interleaved", kMoe + kChunks + Overrides{"dist.ranks=4"}},
        ExpertOverlapCase{
            "interleaved_batched_messages",
            kMoe + kChunks + Overrides{"dist.ranks=4", "comm_overlap.overlap_p2p_comm=false"}},
        ExpertOverlapCase{
            "interleaved_deferred_head",
            kMoe + kChunks +
                Overrides{"dist.ranks=4", "comm_overlap.defer_embedding_wgrad_compute=true",
                          "comm_overlap.wgrad_deferral_limit=0"}},
        ExpertOverlapCase{"interleaved_tensor",
                          kMoe + kChunks +
                              Overrides{"dist.ranks=4", "model.tensor_model_parallel_size=2",
                                        "model.expert_tensor_parallel_size=1"}},
        ExpertOverlapCase{
            "dense_first_layer",
            kMoe + kChunks + Overrides{"dist.ranks=4", "model.moe_layer_freq=[0, 1, 1, 1]"}},
        ExpertOverlapCase{"recompute",
                          kMoe + Overrides{"dist.ranks=2", "model.recompute_granularity=selective",
                                           "model.recompute_modules=[core_attn, layernorm, mlp]"}},
        ExpertOverlapCase{"multi_token",
                          kDeepSeek + Overrides{"dist.ranks=2", "model.mtp_num_layers=1"}},
        ExpertOverlapCase{"capacity",
                          kMoe + Overrides{"dist.ranks=2", "model.moe_expert_capacity_factor=1.0",
                                           "model.moe_pad_expert_input_to_capacity=true"}},
        ExpertOverlapCase{"global_balance",
                          kMoe + Overrides{"dist.ranks=2",
                                           "model.moe_router_load_balancing_type=global_aux_loss"}},
        ExpertOverlapCase{
            "sharded", kMoe + Overrides{"dist.ranks=2",
                                        "ddp.data_parallel_sharding_strategy=optim_grads_params"}}),
    [](const auto& info) { return info.param.name; });

// DualPipeV also adds the gradients of each weight in the order of micro-batches.
TEST(DualPipeV, HasTheBitsOfTheInterleavedRun) {
  for (const Overrides& more : {Overrides{}, Overrides{kOverlap}, Overrides{kOverlap, kDelay}}) {
    const Overrides layout =
        kMoe +
        Overrides{
            "mixed_precision=bf16_mixed",           "model.num_moe_experts=4",
            "model.expert_model_parallel_size=2",   "dist.ranks=4",
            "train.global_batch_size=12",           "model.num_layers=4",
            "model.pipeline_model_parallel_size=2", "model.virtual_pipeline_model_parallel_size=2"};
    const StreamOutcome loop = train_on_streams({.layout = layout}, std::nullopt);
    const StreamOutcome v = train_on_streams(
        {.layout = layout + Overrides{"model.pipeline_schedule=dualpipe_v"} + more}, std::nullopt);
    // Stages have different layers; all ranks have the losses and the gradient norms.
    constexpr size_t kFigures = 2 * 2 * sizeof(double);
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(v.states[rank].substr(0, kFigures), loop.states[rank].substr(0, kFigures))
          << "rank " << rank;
  }
}

}  // namespace
}  // namespace viaduct
