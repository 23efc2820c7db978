// Whole models and runs with dist.device=cuda: the GPU's kernels on the emulator, over the doubles
// of the runtime, of cuBLASLt and of cuDNN. Gradients and losses follow the cpu's within the
// format's tolerance, and have the same bits in any order of streams and blocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "cuda_host/cudnn/cudnn_double.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "generate/prompts.h"
#include "run/rank_device.h"
#include "support/golden.h"
#include "support/language_model.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/stream_seeds.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

const std::string kCuda = "dist.device=cuda";

struct Case {
  std::string name, model;
  Overrides settings;
  double limit;
  bool guard = false;      // one of the orders also forbids host access to the device's memory
  Overrides on_cuda = {};  // of the cuda runs alone
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class CudaModels : public testing::TestWithParam<Case> {
 protected:
  static std::map<std::string, Tensor> probe(const Overrides& more) {
    const auto folder = test_data("golden/" + GetParam().model);
    return probe_layout(folder / "model", folder / "golden.safetensors", false,
                        GetParam().settings + more);
  }
};

TEST_P(CudaModels, GradientsAreTheCpusAndTheSameBitsInEveryOrder) {
  const auto cpu = probe({});
  std::map<std::string, Tensor> first;
  const uint64_t seeds = stream_seeds(2);
  for (uint64_t seed = 0; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    cuda_host::reset_runtime({.seed = seed, .guard = seed == 1 && GetParam().guard});
    const int64_t by_library = cudnn_double::executions();
    const auto cuda = probe(Overrides{kCuda} + GetParam().on_cuda);
    EXPECT_GT(cuda_host::runtime_counts().kernels, 100);
    EXPECT_EQ(cudnn_double::executions() > by_library, !GetParam().on_cuda.empty());
    ASSERT_EQ(cuda.size(), cpu.size());
    for (const auto& [name, values] : cpu) {
      EXPECT_LE(relative_error(cuda.at(name), values), GetParam().limit) << name;
      if (seed == 0) continue;
      EXPECT_TRUE(bytes_of(cuda.at(name)) == bytes_of(first.at(name))) << name << ": other bits";
    }
    if (seed == 0) first = cuda;
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

const Overrides kBf16{"mixed_precision=bf16_mixed"}, kNone;
const Overrides kFused{"model.attention_backend=fused"};

INSTANTIATE_TEST_SUITE_P(
    Models, CudaModels,
    testing::Values(
        Case{"llama", "llama", kNone, 2e-5, true}, Case{"llama_bf16", "llama", kBf16, 3e-2},
        Case{"llama_fused", "llama", kBf16, 3e-2, true, kFused},
        Case{"llama_tied_fused_tp2", "llama_tied",
             kBf16 + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2"}, 3e-2, false,
             kFused},
        Case{"llama_tied_tp2",
             "llama_tied",
             {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"},
             2e-5},
        Case{"llama_tied_dp2", "llama_tied", {"dist.ranks=2", "train.micro_batch_size=1"}, 2e-5},
        Case{"llama_fp8", "llama", {"mixed_precision=bf16_with_fp8_current_scaling_mixed"}, 0.25},
        Case{"llama_fp8_delayed",
             "llama",
             {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"},
             0.25},
        Case{"gemma2", "gemma2", kNone, 2e-5}, Case{"deepseek_v3", "deepseek_v3", kNone, 2e-5},
        Case{
            "mixtral_ep2", "mixtral", {"dist.ranks=2", "model.expert_model_parallel_size=2"}, 2e-5},
        Case{"llama_pp2", "llama", {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}, 2e-5},
        Case{"llama_cp2", "llama", {"dist.ranks=2", "model.context_parallel_size=2"}, 2e-5},
        Case{"gpt2", "gpt2", kNone, 2e-5}, Case{"qwen2_moe", "qwen2_moe", kNone, 2e-5, true}),
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
  for (const Row& row : {Row{"mixed_precision=fp32", 1e-3}, Row{"mixed_precision=bf16_mixed", 0.2},
                         Row{"mixed_precision=bf16_mixed", 0.2, kFused}}) {
    SCOPED_TRACE(row.precision + (row.on_cuda.empty() ? "" : " fused"));
    const Overrides run = tiny_run() + Overrides{row.precision, "train.train_iters=4"};
    const RunOutcome cpu = train_run(run);
    std::optional<RunOutcome> first;
    const uint64_t seeds = stream_seeds(2);
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

TEST(CudaRun, UsesThePlannedMemoryAndWaitsForItsHostReadsAlone) {
  cuda_host::reset_runtime({.seed = 4});
  const RunSetup setup =
      setup_of(tiny_run() + Overrides{kCuda, "train.train_iters=5", "mixed_precision=bf16_mixed"});
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
  // Called before the first step, after each step, and at the end. A step waits for the loss, the
  // gradient norm and the skip flag.
  int steps = 0;
  for (size_t i = 2; i < waits.size(); ++i) {
    const int64_t more = waits[i] - waits[i - 1];
    EXPECT_TRUE(more == 0 || more == 3) << more << " waits";
    steps += more == 3 ? 1 : 0;
  }
  EXPECT_EQ(steps, 4);
}

TEST(CudaGeneration, ChoosesTheCpusTokens) {
  const LanguageModel model("llama");
  GenerationWork work;
  work.batches = batches_by_length({{0, {5, 9, 44, 7}, 8}, {1, {30, 12}, 8}}, 2);
  work.options.sampling.temperature = 0;
  const auto cpu = generate_texts(model.generation(), work);
  cuda_host::reset_runtime({.seed = 6, .guard = true});
  const auto cuda = generate_texts(model.generation({kCuda}), work);
  ASSERT_EQ(cuda.size(), 2u);
  for (size_t i = 0; i < cuda.size(); ++i)
    EXPECT_EQ(cuda[i].generated.tokens, cpu[i].generated.tokens);
}

}  // namespace
}  // namespace viaduct
