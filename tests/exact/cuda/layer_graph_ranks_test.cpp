// Launches that are kept until a layer ends, or has to exchange with other ranks: all ranks have
// the bits of the cpu device, whatever order the streams run in. These runs have no plan of their
// memory, so addresses rarely come again, and most launches are made one by one
// (layer_graph_test.cpp has the graphs).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/nccl/nccl_communicator.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "exact/cuda/host_ops.h"
#include "support/stream_run.h"
#include "support/stream_seeds.h"

namespace viaduct {
namespace {

using namespace test;

struct RankCase {
  std::string name;
  Overrides layout;
  std::vector<GraphModule> modules = {};
  bool share_gpu = false;  // ranks exchange through their hosts
};
void PrintTo(const RankCase& c, std::ostream* out) {
  *out << c.name;
}

class LayerGraphRanks : public testing::TestWithParam<RankCase> {};

TEST_P(LayerGraphRanks, HaveTheBitsOfTheCpu) {
  StreamRun run{.layout = GetParam().layout,
                .steps = 5,
                .layer_graphs = LayerGraphs{2, GetParam().modules},
                .evaluates_between = true};
  const StreamOutcome plain = train_on_streams(run, std::nullopt);
  const auto ranks = static_cast<int>(plain.states.size());
  const bool shared = GetParam().share_gpu;
  run.device = [shared](uint64_t, int rank) { return device_with_host_ops(shared ? 0 : rank); };
  if (!shared) run.world = [](auto hosts) { return make_nccl_communicator(std::move(hosts), 60); };
  const uint64_t seeds = stream_seeds(2);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    cuda_host::reset_runtime({.seed = seed, .devices = shared ? 1 : ranks});
    nccl_double::reset({.seed = seed});
    const StreamOutcome outcome = train_on_streams(run, seed);
    for (size_t rank = 0; rank < plain.states.size(); ++rank)
      EXPECT_TRUE(outcome.states[rank] == plain.states[rank])
          << "seed " << seed << ", rank " << rank;
    if (HasFailure()) return;
  }
}

Overrides two_ranks(const Overrides& more) {
  return Overrides{"dist.ranks=2"} + more;
}

const Overrides kSmallBuckets{"ddp.bucket_size=2000"};
const Overrides kTensor{"model.tensor_model_parallel_size=2", "model.sequence_parallel=true"};
const Overrides kExperts{"model.family=qwen2_moe", "model.num_moe_experts=4",
                         "model.moe_shared_expert_intermediate_size=32",
                         "model.expert_model_parallel_size=2"};

INSTANTIATE_TEST_SUITE_P(
    Layouts, LayerGraphRanks,
    testing::Values(
        RankCase{"dp2", two_ranks(kSmallBuckets)},
        RankCase{"dp2_sharded_gradients",
                 two_ranks({"ddp.data_parallel_sharding_strategy=optim_grads"})},
        RankCase{"dp2_sharded_weights",
                 two_ranks({"ddp.data_parallel_sharding_strategy=optim_grads_params"})},
        RankCase{"dp2_fp8_delayed",
                 two_ranks(kSmallBuckets +
                           Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"})},
        RankCase{"tp2", two_ranks(kTensor)},
        RankCase{"tp2_attn", two_ranks(kTensor), {GraphModule::attn}},
        RankCase{"tp2_one_gpu", two_ranks(kTensor), {}, true},
        RankCase{"cp2", two_ranks({"model.context_parallel_size=2"})},
        RankCase{"pp2_virtual",
                 two_ranks({"model.pipeline_model_parallel_size=2", "model.num_layers=4",
                            "model.virtual_pipeline_model_parallel_size=2"})},
        RankCase{"ep2",
                 two_ranks(kExperts),
                 {GraphModule::attn, GraphModule::moe_router, GraphModule::moe_preprocess}},
        RankCase{"ep2_padded",
                 two_ranks(kExperts + Overrides{"model.moe_expert_capacity_factor=1",
                                                "model.moe_pad_expert_input_to_capacity=true"})}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
