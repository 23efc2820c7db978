// Whole training steps on the cuda device over the runtime's double, with the cpu's kernels as the
// work of its streams: in any order that its events allow, with freed memory NaN, and on one rank
// with memory that the host cannot access, the bits are those of the cpu device.

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

struct DeviceStreamsCase {
  std::string name;
  Overrides layout;
  bool nccl = false;  // with one GPU a rank
};
void PrintTo(const DeviceStreamsCase& c, std::ostream* out) {
  *out << c.name;
}

class CudaSteps : public testing::TestWithParam<DeviceStreamsCase> {};

TEST_P(CudaSteps, HaveTheBitsOfTheCpu) {
  StreamRun run{.layout = GetParam().layout};
  const StreamOutcome plain = train_on_streams(run, std::nullopt);
  const bool one_rank = plain.states.size() == 1;
  const int gpus = GetParam().nccl ? static_cast<int>(plain.states.size()) : 1;
  run.device = [&](uint64_t, int rank) { return device_with_host_ops(rank % gpus); };
  if (GetParam().nccl)
    run.world = [](auto hosts) { return make_nccl_communicator(std::move(hosts), 60); };
  int64_t out_of_order = 0;
  const uint64_t seeds = stream_seeds(3);
  for (uint64_t seed = 0; seed <= seeds; ++seed) {
    cuda_host::reset_runtime({.seed = seed, .devices = gpus, .guard = one_rank && seed == 1});
    nccl_double::reset({.seed = seed});
    const StreamOutcome outcome = train_on_streams(run, seed);
    for (size_t rank = 0; rank < plain.states.size(); ++rank)
      EXPECT_TRUE(outcome.states[rank] == plain.states[rank])
          << "seed " << seed << ", rank " << rank;
    out_of_order += cuda_host::runtime_counts().out_of_order;
    if (GetParam().nccl) {
      EXPECT_GT(nccl_double::calls(), 0);
      EXPECT_EQ(nccl_double::live_connections(), 0);
    }
    if (HasFailure()) return;
  }
  EXPECT_TRUE(out_of_order > 0) << "nothing ran beside compute";
}

Overrides two_ranks(const Overrides& more) {
  return Overrides{"dist.ranks=2"} + more;
}

const Overrides kExperts{"model.family=qwen2_moe", "model.num_moe_experts=4",
                         "model.moe_shared_expert_intermediate_size=32"};
const Overrides kTensor = two_ranks(
                    {"model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}),
                kData = two_ranks({"ddp.bucket_size=2000"}),
                kSharded = two_ranks({"ddp.data_parallel_sharding_strategy=optim_grads_params",
                                      "ddp.bucket_size=2000"}),
                kPipeline = two_ranks({"model.pipeline_model_parallel_size=2"}),
                kContext = two_ranks({"model.context_parallel_size=2"}),
                kExpert = two_ranks({"model.expert_model_parallel_size=2"}) + kExperts;

INSTANTIATE_TEST_SUITE_P(
    Layouts, CudaSteps,
    testing::Values(
        DeviceStreamsCase{"one_rank", {}},
        DeviceStreamsCase{"one_rank_bf16", {"mixed_precision=bf16_mixed"}},
        DeviceStreamsCase{"one_rank_experts", kExperts}, DeviceStreamsCase{"tp2", kTensor},
        DeviceStreamsCase{"dp2", kData}, DeviceStreamsCase{"dp2_sharded", kSharded},
        DeviceStreamsCase{"pp2", kPipeline}, DeviceStreamsCase{"cp2", kContext},
        DeviceStreamsCase{"ep2", kExpert}, DeviceStreamsCase{"nccl_tp2", kTensor, true},
        DeviceStreamsCase{"nccl_dp2", kData, true},
        DeviceStreamsCase{"nccl_dp2_sharded", kSharded, true},
        DeviceStreamsCase{"nccl_pp2", kPipeline, true},
        DeviceStreamsCase{"nccl_cp2", kContext, true}, DeviceStreamsCase{"nccl_ep2", kExpert, true},
        DeviceStreamsCase{"nccl_tp2_pp2",
                          {"dist.ranks=4", "model.tensor_model_parallel_size=2",
                           "model.sequence_parallel=true", "model.pipeline_model_parallel_size=2"},
                          true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
