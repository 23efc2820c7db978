// Graphs of steps on several ranks that include their NCCL operations: in any order of the streams,
// all ranks have the bits of the cpu device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/nccl/nccl_communicator.h"
#include "cuda_host/graphs.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "exact/cuda/host_ops.h"
#include "support/stream_run.h"
#include "support/stream_seeds.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct StepGraphRanksCase {
  std::string name;
  Overrides layout;
};
void PrintTo(const StepGraphRanksCase& c, std::ostream* out) {
  *out << c.name;
}

class StepGraphRanks : public testing::TestWithParam<StepGraphRanksCase> {};

TEST_P(StepGraphRanks, HaveTheBitsOfTheCpu) {
  // An evaluation comes before the step that is captured: the graph must gather weights even if the
  // evaluation has gathered them.
  StreamRun run{
      .layout = GetParam().layout, .steps = 5, .steps_before_graph = 2, .evaluates_between = true};
  const StreamOutcome plain = train_on_streams(run, std::nullopt);
  const auto ranks = static_cast<int>(plain.states.size());
  run.device = [](uint64_t, int rank) { return device_with_host_ops(rank); };
  run.world = [](auto hosts) { return make_nccl_communicator(std::move(hosts), 60); };
  const uint64_t seeds = stream_seeds(2);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    cuda_host::reset_runtime({.seed = seed, .devices = ranks});
    nccl_double::reset({.seed = seed});
    const StreamOutcome outcome = train_on_streams(run, seed);
    for (size_t rank = 0; rank < plain.states.size(); ++rank)
      EXPECT_TRUE(outcome.states[rank] == plain.states[rank])
          << "seed " << seed << ", rank " << rank;
    EXPECT_EQ(cuda_host::graph_counts().made, ranks);
    EXPECT_EQ(cuda_host::graph_counts().launched, 3 * ranks) << "all steps but the first two";
    EXPECT_EQ(nccl_double::live_connections(), 0);
    if (HasFailure()) return;
  }
}

Overrides two_ranks(const Overrides& more) {
  return Overrides{"dist.ranks=2"} + more;
}

const Overrides kSmallBuckets{"ddp.bucket_size=2000"}, kBf16{"mixed_precision=bf16_mixed"};
const Overrides kShardedGradients{"ddp.data_parallel_sharding_strategy=optim_grads"};
const Overrides kShardedWeights =
    kSmallBuckets + Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params"};
const Overrides kOffloadedLayers{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"},
    kOffloadedStates{"optimizer.optimizer_cpu_offload=true",
                     "optimizer.optimizer_offload_fraction=1"},
    kOffloadedWeights{"model.cpu_offloading=true", "model.cpu_offloading_weights=true",
                      "model.cpu_offloading_activations=false"};
const Overrides kPipeline = two_ranks({"model.pipeline_model_parallel_size=2"});
const Overrides kPaddedExperts{"model.family=qwen2_moe",
                               "model.num_moe_experts=4",
                               "model.moe_shared_expert_intermediate_size=32",
                               "model.expert_model_parallel_size=2",
                               "model.moe_expert_capacity_factor=1",
                               "model.moe_pad_expert_input_to_capacity=true"};

INSTANTIATE_TEST_SUITE_P(
    Layouts, StepGraphRanks,
    testing::Values(
        StepGraphRanksCase{"dp2", two_ranks(kSmallBuckets)},
        StepGraphRanksCase{"dp2_at_the_end", two_ranks({"ddp.overlap_grad_reduce=false",
                                                        "ddp.overlap_param_gather=false"})},
        StepGraphRanksCase{
            "dp2_no_shard",
            two_ranks(kSmallBuckets + Overrides{"ddp.use_distributed_optimizer=false"})},
        StepGraphRanksCase{
            "dp2_narrow_gradients",
            two_ranks(kSmallBuckets + kBf16 +
                      Overrides{"ddp.grad_reduce_in_fp32=false",
                                "ddp.param_name_patterns_for_fp32_local_accumulation=all"})},
        StepGraphRanksCase{"dp2_fp32_sums_of_bf16",
                           two_ranks(kSmallBuckets + kBf16 +
                                     Overrides{"ddp.grad_reduce_in_fp32=false",
                                               "ddp.reduce_scatter_with_fp32_accumulation=true"})},
        StepGraphRanksCase{"dp2_sharded_gradients", two_ranks(kSmallBuckets + kShardedGradients)},
        StepGraphRanksCase{"dp2_sharded_narrow_gradients",
                           two_ranks(kSmallBuckets + kShardedGradients + kBf16 +
                                     Overrides{"ddp.grad_reduce_in_fp32=false"})},
        StepGraphRanksCase{
            "dp4_sharded_two_instances",
            kSmallBuckets + kShardedGradients +
                Overrides{"dist.ranks=4", "ddp.num_distributed_optimizer_instances=2"}},
        StepGraphRanksCase{
            "dp4_two_instances",
            kSmallBuckets + Overrides{"dist.ranks=4", "ddp.num_distributed_optimizer_instances=2"}},
        StepGraphRanksCase{"dp2_sharded_weights", two_ranks(kShardedWeights)},
        StepGraphRanksCase{
            "dp2_sharded_weights_at_the_end",
            two_ranks(kShardedWeights + Overrides{"ddp.overlap_grad_reduce=false",
                                                  "ddp.overlap_param_gather=false"})},
        StepGraphRanksCase{
            "dp2_sharded_weights_two_buffers",
            two_ranks(kShardedWeights + kBf16 + Overrides{"ddp.fsdp_double_buffer=true"})},
        StepGraphRanksCase{"dp2_sharded_weights_recomputed",
                           two_ranks(kShardedWeights + Overrides{"model.recompute_granularity=full",
                                                                 "model.recompute_method=uniform",
                                                                 "model.recompute_num_layers=1"})},
        StepGraphRanksCase{
            "dp2_sharded_weights_fp8",
            two_ranks(kShardedWeights +
                      Overrides{"mixed_precision=bf16_with_fp8_current_scaling_mixed"})},
        StepGraphRanksCase{
            "dp2_sharded_weights_fp8_delayed",
            two_ranks(kShardedWeights +
                      Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"})},
        StepGraphRanksCase{
            "dp4_sharded_weights_two_instances",
            kShardedWeights +
                Overrides{"dist.ranks=4", "ddp.num_distributed_optimizer_instances=2"}},
        StepGraphRanksCase{"pp2_dp2_sharded_weights",
                           kShardedWeights + kPipeline + Overrides{"dist.ranks=4"}},
        StepGraphRanksCase{
            "tp2_dp2_sharded_weights",
            kShardedWeights + Overrides{"dist.ranks=4", "model.tensor_model_parallel_size=2",
                                        "model.sequence_parallel=true"}},
        StepGraphRanksCase{"dp2_offloaded_layers", two_ranks(kSmallBuckets + kOffloadedLayers)},
        StepGraphRanksCase{"pp2_offloaded_layers", kPipeline + kOffloadedLayers},
        StepGraphRanksCase{"dp2_offloaded_states", two_ranks(kSmallBuckets + kOffloadedStates)},
        StepGraphRanksCase{"dp2_offloaded_weights",
                           two_ranks(kShardedWeights + kOffloadedWeights + kOffloadedStates)},
        StepGraphRanksCase{"tp2", two_ranks({"model.tensor_model_parallel_size=2",
                                             "model.sequence_parallel=true"})},
        StepGraphRanksCase{"cp2", two_ranks({"model.context_parallel_size=2"})},
        StepGraphRanksCase{"pp2", kPipeline},
        StepGraphRanksCase{"pp2_tied",
                           kPipeline + Overrides{"model.share_embeddings_and_output_weights=true"}},
        StepGraphRanksCase{"pp2_virtual",
                           kPipeline + Overrides{"model.num_layers=4",
                                                 "model.virtual_pipeline_model_parallel_size=2"}},
        StepGraphRanksCase{
            "tp2_pp2",
            {"dist.ranks=4", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true",
             "model.pipeline_model_parallel_size=2"}},
        StepGraphRanksCase{"ep2", two_ranks(kPaddedExperts)},
        StepGraphRanksCase{
            "ep2_gathered",
            two_ranks(kPaddedExperts + Overrides{"model.moe_token_dispatcher_type=allgather"})},
        StepGraphRanksCase{"ep2_flex", two_ranks(kPaddedExperts +
                                                 Overrides{"model.moe_token_dispatcher_type=flex",
                                                           "model.moe_dispatch_fwd_dtype=mxfp8"})},
        StepGraphRanksCase{"ep2_dp2", kSmallBuckets + kPaddedExperts + Overrides{"dist.ranks=4"}},
        StepGraphRanksCase{
            "ep2_shared_overlap",
            two_ranks(kPaddedExperts + Overrides{"model.moe_shared_expert_overlap=true"})},
        StepGraphRanksCase{
            "dp2_fp8_current",
            two_ranks(kSmallBuckets +
                      Overrides{"mixed_precision=bf16_with_fp8_current_scaling_mixed"})},
        StepGraphRanksCase{
            "dp2_fp8_delayed",
            two_ranks(kSmallBuckets +
                      Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"})},
        StepGraphRanksCase{
            "tp2_fp8_delayed",
            two_ranks({"model.tensor_model_parallel_size=2", "model.sequence_parallel=true",
                       "mixed_precision=bf16_with_fp8_delayed_scaling_mixed"})},
        StepGraphRanksCase{
            "dp2_mxfp8",
            two_ranks(kSmallBuckets + Overrides{"mixed_precision=bf16_with_mxfp8_mixed"})},
        StepGraphRanksCase{
            "dp2_nvfp4",
            two_ranks(kSmallBuckets + Overrides{"mixed_precision=bf16_with_nvfp4_mixed"})},
        StepGraphRanksCase{
            "dp2_nvfp4_codes",
            two_ranks(kSmallBuckets + Overrides{"mixed_precision=bf16_with_nvfp4_mixed",
                                                "mixed_precision.fp4_param_gather=true"})}),
    [](const auto& info) { return info.param.name; });

TEST(StepGraphRanks, RanksOfOneGpuHaveNoGraph) {
  cuda_host::reset_runtime({.seed = 1});
  const StreamRun run{.layout = two_ranks({}),
                      .steps_before_graph = 1,
                      .device = [](uint64_t, int) { return device_with_host_ops(0); }};
  EXPECT_THAT([&] { train_on_streams(run, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("ranks share a GPU")));
}

}  // namespace
}  // namespace viaduct
