// With dist.device=cuda, offloaded values go to pinned host memory by copies on separate streams:
// the bits are those of the run that keeps them, in any order of the streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "support/stream_seeds.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

Overrides cuda_run(const Overrides& more) {
  return tiny_run() +
         Overrides{"dist.device=cuda", "train.train_iters=3", "mixed_precision=bf16_mixed"} + more;
}

struct CudaOffloadCase {
  std::string name;
  Overrides settings;
  Overrides also = {};  // of the run without offloading too
};
void PrintTo(const CudaOffloadCase& c, std::ostream* out) {
  *out << c.name;
}

class CudaOffload : public testing::TestWithParam<CudaOffloadCase> {};

TEST_P(CudaOffload, HasTheBitsOfTheRunThatKeeps) {
  const Overrides run = cuda_run(GetParam().also);
  cuda_host::reset_runtime({.seed = 0, .devices = 2});
  nccl_double::reset();
  const RunOutcome kept = train_run(run);
  const int64_t copies = cuda_host::runtime_counts().copies;
  for (const uint64_t seed : case_seeds(GetParam().name, 3)) {
    // A host access to the device's memory is a fault, so copies by the host would be detected.
    cuda_host::reset_runtime({.seed = seed, .devices = 2, .guard = GetParam().also.empty()});
    nccl_double::reset({.seed = seed});
    EXPECT_TRUE(train_run(run + GetParam().settings) == kept) << "seed " << seed;
    EXPECT_GT(cuda_host::runtime_counts().copies, copies) << "nothing was offloaded";
    if (HasFailure()) return;
  }
}

const Overrides kStates{"optimizer.optimizer_cpu_offload=true",
                        "optimizer.optimizer_offload_fraction=1"};

INSTANTIATE_TEST_SUITE_P(
    Settings, CudaOffload,
    testing::Values(
        CudaOffloadCase{"layers",
                        {"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2"}},
        CudaOffloadCase{"modules",
                        {"model.fine_grained_activation_offloading=true",
                         "model.offload_modules=[attn_norm, core_attn, attn_proj, mlp]",
                         "model.min_offloaded_tensor_size=0"}},
        CudaOffloadCase{"states", kStates},
        CudaOffloadCase{"states_overlapped",
                        kStates + Overrides{"optimizer.overlap_cpu_optimizer_d2h_h2d=true"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
