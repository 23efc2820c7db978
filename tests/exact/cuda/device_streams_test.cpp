// Whole training steps on the cuda device over the runtime's double, with the cpu's kernels as the
// work of its streams: whatever order its events allow, with freed memory NaN, and on one rank with
// memory that the host cannot touch, the bits are those of the cpu device.

#include <gtest/gtest.h>

#include "cuda_host/streams.h"
#include "device/cuda/cuda_device.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/stream_ops.h"
#include "support/stream_run.h"

namespace viaduct {
namespace {

using namespace test;

constexpr uint64_t kSeeds = 3;

bool is_cuda(const Device& device) {
  return dynamic_cast<const CudaDevice*>(&device) != nullptr;
}

void push(OpContext& context, std::string_view what, std::function<void()> work) {
  auto& device = dynamic_cast<CudaDevice&>(context.device);
  cuda_host::enqueue(device.handle(context.stream), std::string(what).c_str(), std::move(work));
}

/// A cuda device whose ops are the cpu's.
RankDevice device_with_host_ops(uint64_t) {
  static const OpTable kernels = cpu_ops(test::instruction_set());
  use_op_queue({is_cuda, push, &kernels});
  use_gpu(0);
  return {make_cuda_device({.poison = true}), queued(kernels)};
}

struct Case {
  std::string name;
  Overrides layout;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class CudaSteps : public testing::TestWithParam<Case> {};

TEST_P(CudaSteps, HaveTheBitsOfTheCpu) {
  StreamRun run{.layout = GetParam().layout};
  const StreamOutcome plain = train_on_streams(run, std::nullopt);
  const bool one_rank = plain.states.size() == 1;
  run.device = device_with_host_ops;
  int64_t out_of_order = 0;
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    cuda_host::reset_runtime({.seed = seed, .guard = one_rank && seed == 1});
    const StreamOutcome outcome = train_on_streams(run, seed);
    for (size_t rank = 0; rank < plain.states.size(); ++rank)
      EXPECT_TRUE(outcome.states[rank] == plain.states[rank])
          << "seed " << seed << ", rank " << rank;
    out_of_order += cuda_host::runtime_counts().out_of_order;
    if (HasFailure()) return;
  }
  EXPECT_TRUE(out_of_order > 0) << "nothing ran beside compute";
}

Overrides two_ranks(const Overrides& more) {
  return Overrides{"dist.ranks=2"} + more;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, CudaSteps,
    testing::Values(Case{"one_rank", {}}, Case{"one_rank_bf16", {"mixed_precision=bf16_mixed"}},
                    Case{"one_rank_experts",
                         {"model.family=qwen2_moe", "model.num_moe_experts=4",
                          "model.moe_shared_expert_intermediate_size=32"}},
                    Case{"tp2", two_ranks({"model.tensor_model_parallel_size=2",
                                           "model.sequence_parallel=true"})},
                    Case{"dp2", two_ranks({"ddp.bucket_size=2000"})},
                    Case{"dp2_sharded", two_ranks({"ddp.data_parallel_sharding_strategy=optim_"
                                                   "grads_params",
                                                   "ddp.bucket_size=2000"})},
                    Case{"pp2", two_ranks({"model.pipeline_model_parallel_size=2"})},
                    Case{"cp2", two_ranks({"model.context_parallel_size=2"})},
                    Case{"ep2", two_ranks({"model.family=qwen2_moe", "model.num_moe_experts=4",
                                           "model.moe_shared_expert_intermediate_size=32",
                                           "model.expert_model_parallel_size=2"})}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
