// Whole models on a GPU, by the library that dist.device=cuda loads: gradients follow the cpu's
// within the format's tolerance and have the same bits each time, ranks share the GPU, and a run
// that stops and resumes has the bits of one that does not.

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/gpu_machine.h"
#include "run/cuda_backend.h"
#include "support/golden.h"
#include "support/gpu_models.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kCuda{"dist.device=cuda"};

class GpuModels : public testing::TestWithParam<GpuModel> {};

TEST_P(GpuModels, GradientsAreTheCpusAndTheSameBitsEachTime) {
  const GpuModel& model = GetParam();
  gpu_machine();  // the thread's GPU
  if (cuda_backend().describe_gpu().compute_capability < model.capability)
    GTEST_SKIP() << "a format that this GPU does not have";
  std::map<std::string, Tensor> first;
  try {
    first = probe_gpu_model(model, kCuda + model.on_cuda);
  } catch (const DeviceError& error) {
    // Without cuDNN; an error of the library itself is a failure.
    if (std::string(error.what()).find("which cannot be loaded") == std::string::npos) throw;
    GTEST_SKIP() << error.what();
  }
  const auto cpu = probe_gpu_model(model, {}),
             again = probe_gpu_model(model, kCuda + model.on_cuda);
  ASSERT_EQ(first.size(), cpu.size());
  expect_near_cpu(model, first, cpu);
  for (const auto& [name, values] : first) {
    EXPECT_TRUE(bytes_of(again.at(name)) == bytes_of(values)) << name << ": other bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GpuModels, testing::ValuesIn(gpu_models()),
                         [](const auto& info) { return info.param.name; });

TEST(GpuRuns, FourStepsAreTwoAndTwo) {
  gpu_machine();
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    SCOPED_TRACE(recipe);
    const Overrides run =
        tiny_run() + kCuda +
        Overrides{"train.train_iters=4", std::string("mixed_precision=") + recipe};
    const RunOutcome whole = train_run(run);
    const TemporaryFolder folder;
    const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
    EXPECT_EQ(train_run(saved + Overrides{"train.exit_interval=2"}).state.step, 2);
    EXPECT_TRUE(train_run(saved) == whole);
  }
}

}  // namespace
}  // namespace viaduct
