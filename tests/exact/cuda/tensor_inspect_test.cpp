// Measurements of quantized operands (section `tensor_inspect`) with dist.device=cuda, on the
// doubles of a GPU: the cpu's figures, the same in any order of streams, without a change of the
// run, and in the memory of the dry run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cublaslt_double.h"
#include "cuda_host/graphs.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "support/rank_trainers.h"
#include "support/stream_seeds.h"
#include "support/watched_run.h"

namespace viaduct {
namespace {

using namespace test;
using nlohmann::json;

const Overrides kCuda{"dist.device=cuda"};

/// The first GPU that has the products of a recipe.
int capability_of(const char* recipe) {
  return std::strstr(recipe, "mxfp8") != nullptr || std::strstr(recipe, "nvfp4") != nullptr ? 100
                                                                                            : 90;
}

/// The weights are those of the cpu, bit by bit, and so are their figures. Activations and
/// gradients differ by the order of sums in products, and elements that are rounded differently.
void expect_near(const json& cuda, const json& cpu) {
  ASSERT_EQ(cuda.size(), cpu.size());
  for (const auto& [name, expected] : cpu.items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cuda.contains(name));
    const json& found = cuda[name];
    if (name.ends_with(" w")) {
      EXPECT_EQ(found, expected);
      continue;
    }
    EXPECT_EQ(found.at("not_finite_count"), 0);
    EXPECT_EQ(found.contains("worst_expert"), expected.contains("worst_expert"));
    for (const char* field : {"amax", "relative_error"}) {
      const double value = expected.at(field);
      EXPECT_NEAR(found.at(field).get<double>(), value, 0.25 * value) << field;
    }
    // A power of two may be the next one.
    EXPECT_GE(found.at("most_scale"), expected.at("most_scale").get<double>() / 2);
    EXPECT_LE(found.at("most_scale"), expected.at("most_scale").get<double>() * 2);
    EXPECT_NEAR(found.at("underflow_share").get<double>(),
                expected.at("underflow_share").get<double>(), 0.02);
  }
}

class CudaWatched : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { cublaslt_double::set_capability(capability_of(GetParam())); }
  void TearDown() override { cublaslt_double::set_capability(90); }
  static void reset(uint64_t seed) {
    cuda_host::reset_runtime(
        {.seed = seed, .compute_capability = capability_of(GetParam()), .guard = seed == 1});
  }
};
INSTANTIATE_TEST_SUITE_P(Recipes, CudaWatched, testing::ValuesIn(kWatchedRecipes));

TEST_P(CudaWatched, FiguresAreTheCpusAndTheSameInEveryOrder) {
  const Overrides run = watched_run(GetParam());
  const json cpu = measured(run);
  EXPECT_TRUE(cpu.contains("blocks.1.mlp.experts.up dy"));
  json first;
  for (uint64_t seed = 0; seed <= stream_seeds(1); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    reset(seed);
    const json cuda = measured(run + kCuda);
    if (seed == 0) {
      expect_near(cuda, cpu);
      first = cuda;
    } else {
      EXPECT_EQ(cuda, first);
    }
  }
}

TEST_P(CudaWatched, HasTheBitsOfAnUnwatchedRun) {
  const Overrides run = watched_run(GetParam()) + kCuda;
  reset(1);
  const RunOutcome watched = train_run(run);
  reset(2);
  EXPECT_TRUE(watched == train_run(run + Overrides{"tensor_inspect.enabled=false"}));
}

/// Experts of two ranks, which exchange their rows by NCCL.
TEST(CudaWatchedRanks, HaveTheFiguresOfTheCpus) {
  const Overrides run =
      watched_run("bf16_with_fp8_current_scaling_mixed") +
      Overrides{"train.micro_batch_size=1", "dist.ranks=2", "model.expert_model_parallel_size=2"};
  const json cpu = measured(run);
  cuda_host::reset_runtime({.seed = 3, .devices = 2});
  nccl_double::reset({.seed = 3});
  expect_near(measured(run + kCuda), cpu);
}

const Overrides kDense =
    tiny_run() + kCuda +
    Overrides{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed",
              "mixed_precision.first_last_layers_bf16=false", "tensor_inspect.enabled=true"};

struct Watched {
  RunOutcome outcome;
  std::vector<int64_t> waits;  // for the device, of each step
  int64_t peak_bytes = 0, planned_bytes = 0;
};
Watched watch(const Overrides& overrides, uint64_t seed) {
  cuda_host::reset_runtime({.seed = seed});
  const RunSetup setup = setup_of(overrides);
  const RankDevice rank = make_rank_device(setup.config.dist);
  std::vector<int64_t> waits;
  TrainerHooks hooks;
  hooks.peak_effort = PeakEffort::glance;
  hooks.stop_requested = [&] {
    waits.push_back(cuda_host::runtime_counts().host_waits);
    return false;
  };
  Trainer trainer(setup, *rank.device, rank.ops, hooks);
  const int64_t planned = trainer.planned_memory().peak.bytes;
  trainer.run();
  Watched watched{{}, {}, rank.device->memory().peak_bytes, planned};
  watched.outcome = outcome_of(trainer);
  // Called before the first step, after each step, and at the end.
  for (size_t i = 1; i < waits.size(); ++i) watched.waits.push_back(waits[i] - waits[i - 1]);
  return watched;
}

/// Steps that measure have no graph, and those between them go on with theirs.
TEST(CudaWatchedGraphs, StayWhereStepsAreMeasured) {
  // Of steps 1, 3 and 5 the first runs without a graph; 2, 4, 6 and the last one measure.
  const Overrides steps{"train.train_iters=7", "logger.log_interval=2"};
  for (const Overrides& more :
       {Overrides{}, Overrides{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=1"}}) {
    const Overrides run = kDense + steps + more;
    const RunOutcome plain = watch(run, 1).outcome;
    const json figures = measured(run);
    EXPECT_EQ(cuda_host::graph_counts().launched, 0);
    for (const char* kind : {"full_iteration", "local"}) {
      SCOPED_TRACE(kind);
      const Overrides graphs{std::string("model.cuda_graph_impl=") + kind,
                             "model.cuda_graph_warmup_steps=1"};
      EXPECT_TRUE(watch(run + graphs, 2).outcome == plain);
      const auto counts = cuda_host::graph_counts();
      EXPECT_GT(counts.made, 0);
      // Graphs of layers are launched by several micro-batches.
      EXPECT_GE(counts.launched, 2 * counts.made) << "captured once";
      if (std::string(kind) == "full_iteration") {
        EXPECT_EQ(counts.made, 1);
        EXPECT_EQ(counts.launched, 2);
      }
      cuda_host::reset_runtime({.seed = 3});
      EXPECT_EQ(measured(run + graphs), figures);
    }
  }
}

/// The figures of a step are those of this step alone.
TEST(CudaWatchedSteps, AreClearedBeforeEachStep) {
  const Overrides run = kDense + Overrides{"train.train_iters=3"};
  cuda_host::reset_runtime({.seed = 5});
  const json each = measured(run + Overrides{"logger.log_interval=1"});
  cuda_host::reset_runtime({.seed = 6});
  EXPECT_EQ(measured(run + Overrides{"logger.log_interval=3"}), each);
}

/// The host reads the sums once, after the step, and the dry run has their memory.
TEST(CudaWatchedSteps, ReadTheirSumsOnceAndHaveTheMemoryOfTheDryRun) {
  const Overrides run = kDense + Overrides{"train.train_iters=4", "logger.log_interval=2"};
  const Watched watched = watch(run, 4);
  const Watched plain = watch(run + Overrides{"tensor_inspect.enabled=false"}, 4);
  EXPECT_EQ(watched.peak_bytes, watched.planned_bytes);
  EXPECT_GT(watched.planned_bytes, plain.planned_bytes);
  ASSERT_GE(plain.waits.size(), 4u);
  for (size_t step = 0; step < 4; ++step)
    EXPECT_EQ(watched.waits.at(step), plain.waits[step] + (step % 2 == 1 ? 1 : 0)) << step;
}

}  // namespace
}  // namespace viaduct
