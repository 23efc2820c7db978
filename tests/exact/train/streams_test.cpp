// Whole training steps on a device whose streams run in any order that their waits allow, with
// freed memory NaN: with every overlap the bits are those of the cpu device, whose only stream is
// the host thread. VIADUCT_STREAM_SEEDS is the number of orders of each, 5 by default; the test
// streams.20_seeds sets it.

#include <gtest/gtest.h>

#include "support/stream_run.h"
#include "support/stream_seeds.h"

namespace viaduct {
namespace {

using namespace test;

struct StreamsCase {
  std::string name;
  Overrides layout;
  bool scaled = false, offload = false;
};
void PrintTo(const StreamsCase& c, std::ostream* out) {
  *out << c.name;
}

class Streams : public testing::TestWithParam<StreamsCase> {};

TEST_P(Streams, EveryOrderThatWaitsAllowGivesTheSameBits) {
  const StreamRun run{
      .layout = GetParam().layout, .scaled = GetParam().scaled, .offload = GetParam().offload};
  const StreamOutcome plain = train_on_streams(run, std::nullopt);
  int64_t out_of_order = 0;
  const uint64_t seeds = stream_seeds(5);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const StreamOutcome outcome = train_on_streams(run, seed);
    for (size_t rank = 0; rank < plain.states.size(); ++rank)
      EXPECT_TRUE(outcome.states[rank] == plain.states[rank])
          << "seed " << seed << ", rank " << rank;
    EXPECT_EQ(outcome.offloaded > 0, run.offload);
    out_of_order += outcome.out_of_order;
    if (HasFailure()) return;
  }
  EXPECT_GT(out_of_order, 0) << "no work ran beside compute";
}

Overrides ranks(int count, const Overrides& more) {
  return Overrides{"dist.ranks=" + std::to_string(count)} + more;
}

std::vector<StreamsCase> cases() {
  const std::string tp = "model.tensor_model_parallel_size=2", sp = "model.sequence_parallel=true",
                    cp = "model.context_parallel_size=2",
                    pp = "model.pipeline_model_parallel_size=2",
                    chunks = "model.virtual_pipeline_model_parallel_size=2",
                    layers = "model.num_layers=4", buckets = "ddp.bucket_size=2000",
                    zero = "model.pipeline_schedule=zero_bubble",
                    gradients = "ddp.data_parallel_sharding_strategy=optim_grads",
                    weights = "ddp.data_parallel_sharding_strategy=optim_grads_params";
  const Overrides experts{"model.family=qwen2_moe", "model.num_moe_experts=4",
                          "model.moe_shared_expert_intermediate_size=32",
                          "model.expert_model_parallel_size=2"};
  const std::string delay = "comm_overlap.delay_wgrad_compute=true";
  const Overrides turns{
      "model.family=qwen3_moe",  "mixed_precision=bf16_mixed",
      "model.num_moe_experts=4", "model.expert_model_parallel_size=2",
      "model.moe_router_topk=2", "comm_overlap.overlap_moe_expert_parallel_comm=true"};
  const Overrides narrow{"mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false",
                         "ddp.reduce_scatter_with_fp32_accumulation=true", buckets};
  return {
      {"one_rank", {}},
      {"one_rank_recompute",
       {"model.recompute_granularity=selective",
        "model.recompute_modules=[core_attn, layernorm, mlp]"}},
      {"one_rank_scaled", {"mixed_precision=bf16_mixed", "model.packed_weights=false"}, true},
      {"one_rank_gpt2",
       {"model.family=gpt2", "model.hidden_dropout=0.1", "model.attention_dropout=0.1"}},
      {"one_rank_offload", {"model.num_layers=4"}, false, true},
      // Tensor ranks: without overlap, with bulk and pipelined products, with rings.
      {"tp2_in_turn", ranks(2, {tp, sp, "comm_overlap.tp_comm_overlap=false"})},
      {"tp2_without_sequence", ranks(2, {tp, "model.sequence_parallel=false"})},
      {"tp2", ranks(2, {tp, sp})},
      {"tp2_rs_dgrad", ranks(2, {tp, sp, "model.tp_comm_overlap_rs_dgrad=true"})},
      {"tp2_rings", ranks(2, {tp, sp, "comm_overlap.method=ring_exchange"})},
      {"tp2_scaled", ranks(2, {tp, sp, "mixed_precision=bf16_mixed", "model.packed_weights=false"}),
       true},
      {"tp2_gpt2", ranks(2, {tp, sp, "model.family=gpt2"})},
      {"tp2_recompute", ranks(2, {tp, sp, "model.recompute_granularity=selective",
                                  "model.recompute_modules=[core_attn, layernorm, mlp]"})},
      {"tp2_offload", ranks(2, {tp, sp, layers}), false, true},
      {"cp2", ranks(2, {cp})},
      {"cp2_all_gather", ranks(2, {cp, "model.cp_comm_type=all_gather"})},
      {"cp2_a2a", ranks(2, {cp, "model.cp_comm_type=a2a"})},
      {"pp2", ranks(2, {pp})},
      {"pp2_overlapped", ranks(2, {pp, "comm_overlap.overlap_p2p_comm=true"})},
      {"pp2_warmup_flush", ranks(2, {pp, chunks, layers, "comm_overlap.overlap_p2p_comm=true",
                                     "comm_overlap.overlap_p2p_comm_warmup_flush=true"})},
      {"pp2_in_turn", ranks(2, {pp, "comm_overlap.overlap_p2p_comm=false"})},
      {"pp2_deferred", ranks(2, {pp, "comm_overlap.defer_embedding_wgrad_compute=true",
                                 "comm_overlap.wgrad_deferral_limit=0"})},
      {"pp2_chunks", ranks(2, {pp, chunks, layers})},
      {"pp2_chunks_in_turn", ranks(2, {pp, chunks, layers, "comm_overlap.overlap_p2p_comm=false"})},
      {"pp2_zero_bubble", ranks(2, {pp, zero})},
      {"pp2_chunks_offload", ranks(2, {pp, chunks, layers}), false, true},
      {"pp2_gpt2", ranks(2, {pp, "model.family=gpt2"})},
      {"pp2_chunks_recompute",
       ranks(2, {pp, chunks, layers, "model.recompute_granularity=full",
                 "model.recompute_method=uniform", "model.recompute_num_layers=1"})},
      {"dp2", ranks(2, {buckets})},
      {"dp2_bf16", ranks(2, {buckets, "mixed_precision=bf16_mixed"})},
      {"dp2_in_turn",
       ranks(2, {buckets, "ddp.overlap_grad_reduce=false", "ddp.overlap_param_gather=false"})},
      {"dp2_replicated", ranks(2, {buckets, "ddp.use_distributed_optimizer=false"})},
      {"dp2_instances", ranks(2, {buckets, "ddp.num_distributed_optimizer_instances=2"})},
      {"dp2_exchange", ranks(2, narrow)},
      {"dp2_sharded_gradients", ranks(2, {gradients})},
      {"dp2_sharded", ranks(2, {weights})},
      {"dp2_sharded_in_turn",
       ranks(2, {weights, "ddp.overlap_grad_reduce=false", "ddp.overlap_param_gather=false"})},
      {"dp2_sharded_buffers",
       ranks(2, {weights, layers, "ddp.fsdp_double_buffer=true", "mixed_precision=bf16_mixed"})},
      {"dp2_sharded_recompute",
       ranks(2, {weights, layers, "model.recompute_granularity=full",
                 "model.recompute_method=uniform", "model.recompute_num_layers=2"})},
      {"dp4_sharded_instances", ranks(4, {weights, "ddp.num_distributed_optimizer_instances=2"})},
      {"dp4_shared_state", ranks(4, {buckets, "ddp.num_distributed_optimizer_instances=2",
                                     "ddp.outer_dp_sharding_strategy=optim"})},
      {"dp4_sharded_shared_state", ranks(4, {weights, "ddp.num_distributed_optimizer_instances=2",
                                             "ddp.outer_dp_sharding_strategy=optim"})},
      {"tp2_dp2_sharded", ranks(4, {tp, sp, weights})},
      {"pp2_dp2_sharded", ranks(4, {pp, chunks, layers, weights, "model.family=gpt2"})},
      {"cp4_two_levels", ranks(4, {"model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p",
                                   "model.hierarchical_context_parallel_sizes=[2, 2]"})},
      {"dp2_experts", ranks(2, experts)},
      {"dp2_experts_gathered",
       ranks(2, experts + Overrides{"model.moe_token_dispatcher_type=allgather"})},
      {"dp2_experts_flex", ranks(2, experts + Overrides{"model.moe_token_dispatcher_type=flex",
                                                        "model.moe_shared_expert_overlap=true"})},
      {"dp4_experts_by_domain",
       ranks(4, experts + Overrides{"model.expert_model_parallel_size=4",
                                    "model.moe_token_dispatcher_type=flex",
                                    "dist.nvlink_domain_size=2", "mixed_precision=bf16_mixed",
                                    "model.moe_dispatch_fwd_dtype=mxfp8",
                                    "model.moe_combine_bwd_dtype=mxfp8"})},
      {"dp4_experts_by_domain_overlap",
       ranks(4, turns + Overrides{delay, "model.expert_model_parallel_size=4",
                                  "model.moe_token_dispatcher_type=flex",
                                  "dist.nvlink_domain_size=2"})},
      {"dp2_experts_beside_shared",
       ranks(2, experts + Overrides{"model.moe_shared_expert_overlap=true"})},
      {"tp2_experts_beside_shared",
       ranks(2, experts + Overrides{tp, sp, "model.expert_tensor_parallel_size=1",
                                    "model.moe_shared_expert_overlap=true"})},
      {"dp2_experts_overlap", ranks(2, turns)},
      {"dp2_experts_overlap_delayed", ranks(2, turns + Overrides{delay})},
      {"pp2_experts_overlap",
       ranks(4, turns + Overrides{pp, chunks, layers, delay, "train.global_batch_size=8"})},
      {"pp2_experts_v", ranks(4, turns + Overrides{pp, chunks, layers, "train.global_batch_size=8",
                                                   "model.pipeline_schedule=dualpipe_v"})},
      {"pp2_v", ranks(2, {pp, chunks, layers, "model.pipeline_schedule=dualpipe_v"})},
      {"tp2_cp2", ranks(4, {tp, sp, cp})},
      {"tp2_pp2", ranks(4, {tp, sp, pp, chunks, layers})},
      {"tp2_dp2", ranks(4, {tp, sp, buckets})},
      {"cp2_pp2", ranks(4, {cp, pp})},
      {"cp2_dp2", ranks(4, {cp, buckets})},
      {"pp2_dp2", ranks(4, {pp, chunks, layers, buckets})},
      {"pp2_dp2_gather_with_update",
       ranks(4, {pp, chunks, layers, "optimizer.overlap_param_gather_with_optimizer_step=true"})},
      {"pp2_dp2_not_aligned", ranks(4, {pp, chunks, layers, "ddp.align_param_gather=false",
                                        "dist.align_grad_reduce=false"})},
  };
}

INSTANTIATE_TEST_SUITE_P(Layouts, Streams, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
