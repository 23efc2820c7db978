// Whole models and runs with dist.device=cuda: the GPU's kernels on the emulator, over the doubles
// of the runtime, of cuBLASLt and of cuDNN. Gradients and losses follow the cpu's within the
// format's tolerance, and have the same bits in any order of streams and blocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "base/error.h"
#include "cublaslt_double.h"
#include "cuda_host/cudnn/cudnn_double.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "run/rank_device.h"
#include "support/golden.h"
#include "support/gpu_models.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/stream_seeds.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const std::string kCuda = "dist.device=cuda";

class CudaModels : public testing::TestWithParam<GpuModel> {
 protected:
  void SetUp() override { cublaslt_double::set_capability(GetParam().capability); }
  void TearDown() override { cublaslt_double::set_capability(90); }
  static std::map<std::string, Tensor> probe(const Overrides& more) {
    return probe_gpu_model(GetParam(), more);
  }
};

TEST_P(CudaModels, GradientsAreTheCpusAndTheSameBitsInEveryOrder) {
  const auto cpu = probe({});
  std::map<std::string, Tensor> first;
  std::vector<uint64_t> seeds = case_seeds(GetParam().name, 1);
  seeds.insert(seeds.begin(), 0);  // the order of the program, which follows the cpu
  for (const uint64_t seed : seeds) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    cuda_host::reset_runtime({.seed = seed,
                              .compute_capability = GetParam().capability,
                              .guard = seed > 0 && GetParam().guard});
    const int64_t by_library = cudnn_double::executions();
    const auto cuda = probe(Overrides{kCuda} + GetParam().on_cuda);
    EXPECT_GT(cuda_host::runtime_counts().kernels, 100);
    EXPECT_EQ(cudnn_double::executions() > by_library, !GetParam().on_cuda.empty());
    ASSERT_EQ(cuda.size(), cpu.size());
    if (seed == 0) {
      expect_near_cpu(GetParam(), cuda, cpu);
      first = cuda;
    }
    for (const auto& [name, values] : first)
      EXPECT_TRUE(bytes_of(cuda.at(name)) == bytes_of(values)) << name << ": other bits";
  }
}

/// Ranks with one GPU each exchange gradients by NCCL, whose sums have their own order.
TEST(CudaNccl, GradientsAreTheCpusAndTheSameBitsInEveryOrder) {
  const Overrides layout{"dist.ranks=4", "model.tensor_model_parallel_size=2",
                         "model.sequence_parallel=true", "train.micro_batch_size=1"};
  const auto folder = test_data("golden/llama_tied");
  const auto probe = [&](const Overrides& more) {
    return probe_layout(folder / "model", folder / "golden.safetensors", false, layout + more);
  };
  const auto cpu = probe({});
  std::map<std::string, Tensor> first;
  const uint64_t seeds = stream_seeds(3);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    cuda_host::reset_runtime({.seed = seed, .devices = 4});
    nccl_double::reset({.sums = nccl_double::Sums::along_a_ring, .seed = seed});
    const auto cuda = probe({kCuda});
    EXPECT_GT(nccl_double::calls(), 100) << "ranks exchanged host memory";
    for (const auto& [name, values] : cpu) {
      EXPECT_LE(relative_error(cuda.at(name), values), 2e-5) << name;
      if (seed > 1) {
        EXPECT_TRUE(bytes_of(cuda.at(name)) == bytes_of(first.at(name))) << name;
      }
    }
    if (seed == 1) first = cuda;
  }
}

const Overrides kBf16{"mixed_precision=bf16_mixed"}, kFused{"model.attention_backend=fused"},
    kFlash{"model.attention_backend=flash"};

INSTANTIATE_TEST_SUITE_P(Models, CudaModels, testing::ValuesIn(gpu_models()),
                         [](const auto& info) { return info.param.name; });

/// Relative L2 distance of two tensors' bytes as FP32 numbers.
double distance(const std::string& a, const std::string& b) {
  const auto count = static_cast<int64_t>(a.size() / sizeof(float));
  const Tensor x = host_tensor(DType::f32, {count}), y = host_tensor(DType::f32, {count});
  std::memcpy(x.raw(), a.data(), a.size());
  std::memcpy(y.raw(), b.data(), b.size());
  return relative_error(x, y);
}

TEST(CudaRun, FollowsTheCpusAndIsTheSameInEveryOrder) {
  struct Row {
    std::string precision;
    double limit;
    Overrides on_cuda = {};
  };
  for (const Row& row :
       {Row{"mixed_precision=fp32", 1e-3}, Row{"mixed_precision=bf16_mixed", 0.2, kFlash},
        Row{"mixed_precision=bf16_mixed", 0.2, kFused}}) {
    SCOPED_TRACE(row.precision + (row.on_cuda.empty() ? "" : row.on_cuda.front()));
    const Overrides run = tiny_run() + Overrides{row.precision, "train.train_iters=4"};
    const RunOutcome cpu = train_run(run);
    std::optional<RunOutcome> first;
    const uint64_t seeds = stream_seeds(1);
    for (uint64_t seed = 0; seed <= seeds; ++seed) {
      cuda_host::reset_runtime({.seed = seed, .guard = seed == 1});
      const RunOutcome cuda = train_run(run + Overrides{kCuda} + row.on_cuda);
      ASSERT_EQ(cuda.tensors.size(), cpu.tensors.size());
      for (const auto& [name, bytes] : cpu.tensors) {
        ASSERT_EQ(cuda.tensors.at(name).size(), bytes.size()) << name;
        EXPECT_LE(distance(cuda.tensors.at(name), bytes), row.limit) << name;
      }
      if (first) {
        EXPECT_TRUE(cuda == *first) << "seed " << seed;
      } else {
        first = cuda;
      }
    }
  }
}

/// Without model.attention_backend, where cuDNN is there.
TEST(CudaRun, TakesCudnnsAttentionIfItCanBeUsed) {
  const Overrides run = tiny_run() + kBf16 + Overrides{kCuda, "train.train_iters=1"};
  const auto calls_of = [](const Overrides& overrides) {
    cuda_host::reset_runtime({.seed = 1});
    const int64_t before = cudnn_double::executions();
    train_run(overrides);
    return cudnn_double::executions() - before;
  };
  EXPECT_GT(calls_of(run), 0);
  EXPECT_EQ(calls_of(run + kFlash), 0);
  cudnn_double::set_version(90702);
  EXPECT_EQ(calls_of(run), 0);
  EXPECT_THAT(setup_of(run).notes,
              Contains(AllOf(HasSubstr("model.attention_backend: auto is flash here"),
                             HasSubstr("cuDNN is version 9.7.2"))));
  cudnn_double::set_version(0);
}

/// No kernel expands these codes.
TEST(CudaRun, RefusesFrozenWeightsInNf4) {
  cuda_host::reset_runtime({});
  EXPECT_THAT(
      [&] {
        setup_of(tiny_run() + Overrides{kCuda, "peft.scheme=lora", "peft.base_format=nf4"});
      },
      testing::ThrowsMessage<ConfigError>(testing::HasSubstr("peft.base_format: nf4, on GPUs")));
}

/// Sizes that support the products of all recipes.
const Overrides kWideRun{"model.num_layers=3",        "model.hidden_size=128",
                         "model.ffn_hidden_size=256", "model.num_query_groups=2",
                         "train.global_batch_size=2", "train.train_iters=2"};

/// Norms and activations that make no other forms leave them to launches of their own.
TEST(CudaRun, ProducersChangeNoBitAndHaveFewerLaunches) {
  struct Row {
    const char* recipe;
    int capability;
  };
  for (const Row& row : {Row{"bf16_with_fp8_delayed_scaling_mixed", 90},
                         Row{"bf16_with_fp8_current_scaling_mixed", 90},
                         Row{"bf16_with_fp8_subchannel_scaling_mixed", 90},
                         Row{"bf16_with_mxfp8_mixed", 100}, Row{"bf16_with_nvfp4_mixed", 100}}) {
    SCOPED_TRACE(row.recipe);
    cublaslt_double::set_capability(row.capability);
    const auto run = [&](bool producers) {
      cuda_host::reset_runtime({.seed = 3, .compute_capability = row.capability});
      const RunSetup setup = setup_of(
          tiny_run() + kWideRun + Overrides{kCuda, std::string("mixed_precision=") + row.recipe});
      RankDevice rank = make_rank_device(setup.config.dist);
      if (!producers) rank.ops.produced_forms = nullptr;
      Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance});
      trainer.run();
      return std::pair{outcome_of(trainer), cuda_host::runtime_counts().kernels};
    };
    const auto [with, fewer] = run(true);
    const auto [without, more] = run(false);
    EXPECT_TRUE(with == without);
    EXPECT_LT(fewer, more);
  }
  cublaslt_double::set_capability(90);
}

/// Runs five steps in exactly the planned memory; returns for how many copies to the host each
/// waits.
int64_t waits_of_a_step(const Overrides& run) {
  cuda_host::reset_runtime({.seed = 4});
  const RunSetup setup = setup_of(run + Overrides{kCuda, "train.train_iters=5"});
  const RankDevice rank = make_rank_device(setup.config.dist);
  std::vector<int64_t> system_allocations, waits;
  TrainerHooks hooks;
  hooks.peak_effort = PeakEffort::glance;
  hooks.stop_requested = [&] {
    system_allocations.push_back(rank.device->memory().system_allocations);
    waits.push_back(cuda_host::runtime_counts().host_waits);
    return false;
  };
  Trainer trainer(setup, *rank.device, rank.ops, hooks);
  const PlannedMemory& planned = trainer.planned_memory();
  trainer.run();
  EXPECT_THAT(system_allocations, testing::Each(1)) << "the arena";
  EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
  EXPECT_EQ(rank.device->memory().peak_bytes, planned.peak.bytes);
  // Called before the first step, after each step, and at the end.
  std::vector<int64_t> of_steps;
  for (size_t i = 2; i < waits.size(); ++i)
    if (waits[i] > waits[i - 1]) of_steps.push_back(waits[i] - waits[i - 1]);
  EXPECT_EQ(of_steps.size(), 4u);
  EXPECT_THAT(of_steps, testing::Each(of_steps.at(0)));
  return of_steps.at(0);
}

TEST(CudaRun, UsesThePlannedMemoryAndWaitsForItsHostReadsAlone) {
  EXPECT_EQ(waits_of_a_step(tiny_run() + kBf16), 3) << "loss, gradient norm, skip flag";
}

// Their operands are in the workspace, and how many rows an expert has is read on the device.
TEST(CudaRun, QuantizedExpertsUseThePlannedMemoryAndNoMoreHostReads) {
  const Overrides run =
      tiny_run("mixtral") + Overrides{"model.num_moe_experts=4", "model.moe_router_topk=2"};
  const int64_t plain = waits_of_a_step(run + kBf16);
  for (const char* recipe :
       {"bf16_with_fp8_delayed_scaling_mixed", "bf16_with_fp8_subchannel_scaling_mixed"}) {
    SCOPED_TRACE(recipe);
    EXPECT_EQ(waits_of_a_step(run + Overrides{std::string("mixed_precision=") + recipe}), plain);
  }
}

}  // namespace
}  // namespace viaduct
