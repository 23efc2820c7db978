// The effect of the switches of section `logger` on metrics.jsonl and TensorBoard.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/log_statistics.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

struct Logged {
  std::vector<nlohmann::json> lines;
  std::string tensorboard;  // bytes of the event file
  RunOutcome run;
};

/// Four steps, the second and the fourth logged.
Logged logged(const Overrides& overrides) {
  TemporaryFolder folder;
  Logged result;
  result.run = train_run(tiny_run() +
                         Overrides{"checkpoint.save=" + folder.path().string(),
                                   "train.train_iters=4", "logger.log_interval=2"} +
                         overrides);
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);)
    result.lines.push_back(nlohmann::json::parse(line));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "tensorboard"))
    result.tensorboard += read_file(entry.path());
  return result;
}

TEST(LoggingKnobs, ThroughputIsThereUnlessSwitchedOff) {
  const Logged with = logged({}), without = logged({"logger.log_throughput=false"});
  ASSERT_EQ(with.lines.size(), 2u);
  ASSERT_EQ(without.lines.size(), 2u);
  for (const char* name : {"samples_per_second", "tokens_per_second", "tflops_per_rank", "mfu",
                           "mfu_peak", "flop_convention"}) {
    EXPECT_TRUE(with.lines[0].contains(name)) << name;
    EXPECT_FALSE(without.lines[0].contains(name)) << name;
  }
  EXPECT_GT(without.lines[0]["step_seconds"].get<double>(), 0);
  EXPECT_THAT(with.tensorboard, HasSubstr("speed/tokens_per_second"));
  EXPECT_THAT(without.tensorboard, Not(HasSubstr("speed/tokens_per_second")));
  EXPECT_EQ(with.run, without.run);
  EXPECT_THAT(
      [] {
        logged({"logger.log_throughput=false", "logger.flops=full"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("logger.flops")));
}

TEST(LoggingKnobs, EachLevelOfTimersAddsSome) {
  const Logged none = logged({}), coarse = logged({"logger.timing_log_level=1"}),
               fine = logged({"logger.timing_log_level=2"});
  EXPECT_FALSE(none.lines[0].contains("timers"));
  double sum = 0;
  for (const char* name : {"forward", "backward", "optimizer", "data"}) {
    const auto& timer = coarse.lines[1]["timers"][name];
    EXPECT_GT(timer["min"].get<double>(), 0) << name;
    EXPECT_EQ(timer["min"], timer["max"]) << "one rank";
    sum += timer["max"].get<double>();
  }
  EXPECT_LE(sum, coarse.lines[1]["step_seconds"].get<double>()) << "only of this step";
  EXPECT_FALSE(coarse.lines[1]["timers"].contains("op/gemm"));
  EXPECT_GT(fine.lines[1]["timers"]["op/gemm"]["max"].get<double>(), 0);
  EXPECT_THAT(fine.tensorboard, HasSubstr("timers/op/gemm"));
  EXPECT_EQ(none.run, fine.run);
  EXPECT_THAT([] { logged({"logger.timing_log_level=3"}); },
              ThrowsMessage<ConfigError>(HasSubstr("logger.timing_log_level")));
}

// A line has the extremes over the ranks for the step before; none of them is a list of ranks.
TEST(LoggingKnobs, RanksAreLeastMeanAndMost) {
  TemporaryFolder folder;
  const RunSetup setup = setup_of(
      tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(), "train.train_iters=3",
                             "logger.log_interval=1", "dist.ranks=2", "dist.threads_per_rank=1",
                             "logger.timing_log_level=2"});
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world).run();
  });
  std::vector<nlohmann::json> lines;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_FALSE(lines[0].contains("ranks")) << "no step has ended on all ranks yet";
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto& ranks = lines[i]["ranks"];
    EXPECT_EQ(ranks["step"], i) << "the step before";
    for (const char* name :
         {"step_seconds", "data_seconds", "communication_seconds", "peak_memory_bytes"}) {
      const auto& figure = ranks[name];
      EXPECT_GT(figure["max"].get<double>(), 0) << name;
      EXPECT_GE(figure["max"], figure["mean"]) << name;
      EXPECT_GE(figure["mean"], figure["min"]) << name;
      EXPECT_LT(figure["max_rank"].get<int>(), 2) << name;
    }
    const double own = lines[i - 1]["step_seconds"];
    EXPECT_LE(ranks["step_seconds"]["min"].get<double>(), own) << "rank 0's is one of them";
    EXPECT_GE(ranks["step_seconds"]["max"].get<double>(), own);
    EXPECT_GT(lines[i]["communication_seconds"].get<double>(), 0) << "counted without a profile";
    EXPECT_GT(lines[i]["timers"]["op/gemm"]["mean"].get<double>(), 0);
    for (const auto& [name, value] : lines[i].items())
      EXPECT_FALSE(value.is_array()) << name << ": a number for each rank";
  }
}

TEST(LoggingKnobs, TheNormOfTheWeightsIsThatOfTheRun) {
  const Logged log = logged({"logger.log_params_norm=true"});
  double sum = 0;
  for (const auto& [name, bytes] : log.run.tensors) {
    if (name.find("optimizer") != std::string::npos || name.find("exp_avg") != std::string::npos)
      continue;
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i)
      sum += static_cast<double>(values[i]) * values[i];
  }
  EXPECT_NEAR(log.lines[1]["params_norm"].get<double>(), std::sqrt(sum), 1e-6 * std::sqrt(sum));
  EXPECT_NE(log.lines[0]["params_norm"], log.lines[1]["params_norm"]);
  EXPECT_FALSE(logged({}).lines[0].contains("params_norm"));
}

TEST(LoggingKnobs, MemoryByOwnerGoesToTensorBoard) {
  const std::string on = logged({"logger.log_memory_to_tensorboard=true"}).tensorboard;
  EXPECT_THAT(on, HasSubstr("memory/reserved_bytes"));
  EXPECT_THAT(on, HasSubstr("memory/owner/weights_bytes"));
  const std::string off = logged({}).tensorboard;
  EXPECT_THAT(off, Not(HasSubstr("memory/reserved_bytes")));
  EXPECT_THAT(off, HasSubstr("memory/peak_bytes"));
}

TEST(LoggingKnobs, EachLayersRouterGoesToTensorBoard) {
  const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.moe_aux_loss_coeff=0.1"};
  const Logged on = logged(experts + Overrides{"logger.moe_per_layer_logging=true"});
  for (const char* layer : {"0", "1"})
    for (const char* figure : {"load_max", "load_entropy", "entropy", "dropped", "balance_loss"})
      EXPECT_THAT(on.tensorboard, HasSubstr(fmt::format("routers/layer_{}/{}", layer, figure)));
  EXPECT_THAT(on.tensorboard, Not(HasSubstr("routers/layer_2/")));
  const Logged off = logged(experts);
  EXPECT_THAT(off.tensorboard, Not(HasSubstr("routers/layer_")));
  EXPECT_EQ(on.run, off.run);
  EXPECT_EQ(on.lines[1]["routers"], off.lines[1]["routers"]);
}

/// Bytes of the TensorBoard files of a run on `ranks` ranks.
size_t event_bytes(int ranks) {
  TemporaryFolder folder;
  const RunSetup setup = setup_of(
      tiny_run("qwen3_moe") +
      Overrides{"model.num_moe_experts=4", "model.moe_router_topk=2", "train.train_iters=2",
                "train.micro_batch_size=1", "dist.threads_per_rank=1",
                "logger.moe_per_layer_logging=true", "dist.ranks=" + std::to_string(ranks),
                "checkpoint.save=" + folder.path().string()});
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, std::move(world));
    trainer.run();
  });
  size_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "tensorboard"))
    bytes += read_file(entry.path()).size();
  return bytes;
}

TEST(LoggingKnobs, WhatLayersLogDoesNotGrowWithRanks) {
  EXPECT_EQ(event_bytes(4), event_bytes(2));
}

/// Weight norm and zeros in gradients after a step, in a layout; equal on all its ranks.
std::pair<double, int64_t> statistics(const Overrides& layout) {
  const RunSetup setup =
      setup_of(tiny_run() + layout + Overrides{"train.train_iters=2", "dist.threads_per_rank=1"});
  std::vector<std::pair<double, int64_t>> all;
  std::mutex mutex;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, std::move(world));
    trainer.run();
    const std::pair<double, int64_t> mine{weight_norm(trainer.engine()),
                                          zero_gradients(trainer.engine())};
    const std::lock_guard lock(mutex);
    all.push_back(mine);
  });
  for (const auto& one : all) EXPECT_EQ(one, all.front());
  return all.front();
}

TEST(LoggingKnobs, EachElementCountsOnceInEveryLayout) {
  const auto one = statistics({"dist.ranks=1"});
  EXPECT_GT(one.first, 0);
  // Tokens that occur in no row have zero rows in the table's gradient.
  EXPECT_EQ(one.second % 32, 0);
  for (const Overrides& layout :
       {Overrides{"dist.ranks=2"}, Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2"},
        Overrides{"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
        Overrides{"dist.ranks=2", "ddp.use_distributed_optimizer=false"}}) {
    const auto many = statistics(layout);
    EXPECT_NEAR(many.first, one.first, 1e-4 * one.first) << layout.back();
    EXPECT_EQ(many.second, one.second) << layout.back();
  }
}

TEST(LoggingKnobs, ZerosOfTheGradientAreCounted) {
  const Logged log = logged({"logger.log_num_zeros_in_grad=true", "model.vocab_size=4096"});
  // A step reads 4 rows of 32 tokens: most of the 4096 rows of the table have a zero gradient.
  const int64_t zeros = log.lines[0]["num_zeros_in_grad"];
  EXPECT_GE(zeros, (4096 - 128) * 32);
  EXPECT_LT(zeros, 4097 * 32);
  EXPECT_FALSE(logged({}).lines[0].contains("num_zeros_in_grad"));
}

}  // namespace
}  // namespace viaduct
