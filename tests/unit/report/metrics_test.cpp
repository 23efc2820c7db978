#include "report/metrics.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "report/append_file.h"
#include "report/metrics_file.h"
#include "report/metrics_log.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr FlopCount kFlops{
    .token_part = 1.5e11, .attention_part = 0.5e11, .attention_part_full = 1e11};

StepMetrics metrics(int64_t step) {
  StepMetrics m;
  m.step = step, m.samples = 8 * step, m.tokens = 8192 * step;
  m.loss = 3.25, m.grad_norm = 1.5, m.learning_rate = 3e-4;
  m.communication_seconds = 0.125, m.communication_busy_seconds = 0.25, m.data_seconds = 0.0625;
  m.peak_memory_bytes = 300;
  FiguresOfRanks ranks{.step = step - 1};
  ranks.step_seconds = {.sum = 1.5, .least = 0.25, .most = 0.75, .counted = 3, .most_rank = 2};
  ranks.data_seconds = ranks.communication_seconds = ranks.step_seconds;
  ranks.peak_memory_bytes = {
      .sum = 600, .least = 100, .most = 300, .counted = 3, .least_rank = 0, .most_rank = 1};
  m.ranks = ranks;
  m.set_rates(0.5, 8, 8192, kFlops, 2,
              {.tflops = 0.8, .name = "FP32 FMA AVX2", .measured = true, .threads = 2});
  return m;
}

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<int64_t> steps_of(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  for (const Json& line : lines_of(path)) steps.push_back(line.at("step"));
  return steps;
}

TEST(Metrics, RatesFollowFromTheStep) {
  const StepMetrics m = metrics(3);
  EXPECT_DOUBLE_EQ(m.samples_per_second, 16);
  EXPECT_DOUBLE_EQ(m.tokens_per_second, 16384);
  EXPECT_DOUBLE_EQ(m.tflops_per_rank, 0.2);
  EXPECT_DOUBLE_EQ(m.mfu.value(), 0.25);
  EXPECT_EQ(m.mfu_peak, "FP32 FMA AVX2, 0.8 TFLOP/s measured on 2 threads");
  EXPECT_THROW(StepMetrics().set_rates(0, 1, 1, kFlops, 1, {}), ShapeError);
}

TEST(Metrics, TheLineHasEveryFieldOfTheContract) {
  const Json seconds{{"min", 0.25}, {"min_rank", 0}, {"mean", 0.5}, {"max", 0.75}, {"max_rank", 2}};
  const Json line = Json::parse(json_line(metrics(3)));
  const Json expected = {
      {"step", 3},
      {"samples", 24},
      {"tokens", 24576},
      {"loss", 3.25},
      {"grad_norm", 1.5},
      {"learning_rate", 3e-4},
      {"global_batch_size", 8},
      {"step_seconds", 0.5},
      {"samples_per_second", 16.0},
      {"tokens_per_second", 16384.0},
      {"tflops_per_rank", 0.2},
      {"mfu", 0.25},
      {"mfu_peak", "FP32 FMA AVX2, 0.8 TFLOP/s measured on 2 threads"},
      {"flop_convention", "model_causal"},
      {"communication_seconds", 0.125},
      {"communication_busy_seconds", 0.25},
      {"data_seconds", 0.0625},
      {"peak_memory_bytes", 300},
      {"ranks",
       {{"step", 2},
        {"step_seconds", seconds},
        {"data_seconds", seconds},
        {"communication_seconds", seconds},
        {"peak_memory_bytes",
         {{"min", 100.0}, {"min_rank", 0}, {"mean", 200.0}, {"max", 300.0}, {"max_rank", 1}}}}},
      {"skipped", 0},
  };
  EXPECT_EQ(line, expected);
  EXPECT_THAT(json_line(metrics(3)), testing::StartsWith("{\"step\":3,"));
  EXPECT_THAT(json_line(metrics(3)), testing::Not(testing::HasSubstr("\n")));
}

TEST(Metrics, WhatIsUnknownIsNull) {
  StepMetrics m = metrics(1);
  m.set_rates(0.5, 8, 8192, kFlops, 2, {});
  m.loss.reset();
  m.grad_norm = NAN;
  m.simulated = true;
  m.loss_scale = 65536;
  const Json line = Json::parse(json_line(m));
  for (const char* field : {"loss", "grad_norm", "mfu", "mfu_peak"})
    EXPECT_TRUE(line.at(field).is_null()) << field;
  EXPECT_EQ(line.at("simulated"), true);
  EXPECT_EQ(line.at("loss_scale"), 65536);
}

TEST(Metrics, TheUncausalCountStandsBesideWhenAskedFor) {
  StepMetrics m;
  m.set_rates(0.5, 8, 8192, kFlops, 2, {.tflops = 0.5, .name = "x"}, /*with_full_count=*/true);
  const Json line = Json::parse(json_line(m));
  EXPECT_DOUBLE_EQ(line.at("mfu"), 0.4);
  EXPECT_DOUBLE_EQ(line.at("tflops_per_rank_full"), 0.25);
  EXPECT_DOUBLE_EQ(line.at("mfu_full"), 0.5);
  m.set_rates(0.5, 8, 8192, kFlops, 2, {});
  EXPECT_FALSE(Json::parse(json_line(m)).contains("mfu_full"));
}

TEST(Metrics, NumbersKeepEveryBit) {
  StepMetrics m = metrics(1);
  m.loss = 0.1f;
  EXPECT_EQ(Json::parse(json_line(m)).at("loss").get<double>(), double{0.1f});
}

TEST(MetricsFile, AppendsAcrossSessions) {
  test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    file.write(R"({"step":1})");
    EXPECT_EQ(read_file(path), "{\"step\":1}\n");  // at once, not when closed
    file.write(R"({"step":2})");
  }
  MetricsFile(path, 2).write(R"({"step":3})");
  EXPECT_EQ(steps_of(path), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_FALSE(std::filesystem::exists(folder / "metrics.dropped.jsonl"));
}

TEST(MetricsFile, AResumedRunTellsEachStepOnce) {
  test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_file_atomically(path,
                        "{\"step\":10}\n{\"step\":20}\n{\"step\":20,\"validation_loss\":2}\n{"
                        "\"step\":30}\n{\"step\":4");
  MetricsFile(path, 20).write(R"({"step":30,"again":true})");
  EXPECT_EQ(steps_of(path), (std::vector<int64_t>{10, 20, 20, 30}));
  EXPECT_EQ(lines_of(path).back().at("again"), true);
  EXPECT_EQ(read_file(folder / "metrics.dropped.jsonl"), "{\"step\":30}\n{\"step\":4\n");
}

TEST(MetricsFile, ALastLineWithoutItsEndIsNotGluedToTheNext) {
  test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_file_atomically(path,
                        "{\"step\":1}\n{\"step\":2}");  // complete JSON, but truncated
  MetricsFile(path, 5).write(R"({"step":6})");
  EXPECT_EQ(steps_of(path), (std::vector<int64_t>{1, 6}));
}

TEST(MetricsFile, AFreshRunStartsAFreshHistoryAndLosesNothing) {
  test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string garbage = "not json\n[1]\n{\"step\":\"x\"}\n{}\n{\"step\":7}\n";
  write_file_atomically(path, garbage);
  MetricsFile file(path, 0);
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(read_file(folder / "metrics.dropped.jsonl"), garbage);
  EXPECT_THROW(MetricsFile(folder / "missing" / "metrics.jsonl", 0), IoError);
}

TEST(MetricsFile, HasOneLineForEachStepAndKind) {
  test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_file_atomically(path,
                        "{\"step\":0,\"validation_loss\":3}\n{\"step\":1}\n{\"step\":2}\n"
                        "{\"step\":2,\"validation_loss\":1.5}\n{\"step\":1,\"twice\":1}\n");
  MetricsFile file(path, 2);
  EXPECT_EQ(file.validation_before(), "{\"step\":2,\"validation_loss\":1.5}");
  EXPECT_FALSE(file.write(R"({"step":2,"validation_loss":9})"));
  EXPECT_TRUE(file.write(R"({"step":2,"stopped":"signal"})"));
  EXPECT_TRUE(file.write(R"({"step":3})"));
  EXPECT_EQ(steps_of(path), (std::vector<int64_t>{0, 1, 2, 2, 2, 3}));
  EXPECT_EQ(read_file(folder / "metrics.dropped.jsonl"), "{\"step\":1,\"twice\":1}\n");
  EXPECT_EQ(MetricsFile(path, 3).validation_before(), "");
  // A run from the start does not continue the existing file.
  EXPECT_EQ(MetricsFile(path, 0).validation_before(), "");
  EXPECT_EQ(read_file(path), "");
}

TEST(AppendFile, IsMadeAgainWithAllThatItHeld) {
  test::TemporaryFolder folder;
  const auto path = folder / "run/metrics.jsonl";
  std::filesystem::create_directory(folder / "run");
  std::string expected(200'000, 'x');
  AppendFile file(path, AppendFile::Mode::append);
  file.append(expected);
  std::filesystem::remove_all(folder / "run");
  file.append("y");
  EXPECT_TRUE(read_file(path) == expected + "y");
  file.append("z");
  EXPECT_TRUE(read_file(path) == expected + "yz");
  // A foreign file is kept, and lines are appended to it.
  std::filesystem::remove(path);
  write_file_atomically(path, "theirs");
  file.append(" and ours");
  EXPECT_EQ(read_file(path), "theirs and ours");
}

TEST(MetricsLog, ASessionWithoutNewsLeavesNoEventFile) {
  test::TemporaryFolder folder;
  const MetricsLogOptions options{.folder = folder / "run",
                                  .tensorboard_folder = folder / "run/tensorboard",
                                  .steps_done = 20,
                                  .total_steps = 20};
  std::filesystem::create_directory(folder / "run");
  write_file_atomically(folder / "run/metrics.jsonl", "{\"step\":20,\"validation_loss\":null}\n");
  {
    MetricsLog log(options);
    ASSERT_TRUE(log.validation_before());
    EXPECT_TRUE(std::isnan(*log.validation_before()));
    log.validation({.step = 20, .validation_loss = 2.5, .validation_tokens = 100});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run/tensorboard"));
  EXPECT_EQ(lines_of(folder / "run/metrics.jsonl").size(), 1u);
  MetricsLog(options).stopped(20, "signal");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run/tensorboard"));
}

TEST(MetricsLog, OneCallFeedsEveryWriter) {
  test::TemporaryFolder folder;
  const auto display = folder / "display.txt";
  std::FILE* out = std::fopen(display.c_str(), "w");
  {
    MetricsLog log({.folder = folder / "run",
                    .tensorboard_folder = folder / "run" / "tensorboard",
                    .display = out,
                    .total_steps = 25,
                    .log_interval = 10});
    for (int64_t step = 1; step <= 25; ++step) {
      StepMetrics m = metrics(step);
      m.skipped = step == 12 || step == 13 ? 1 : 0;
      m.nothing_scored = step == 13 ? 1 : 0;
      log.step(m);
      if (step == 20)
        log.validation({.step = 20, .validation_loss = 2.5, .validation_tokens = 100});
    }
    log.stopped(25, "signal");
  }
  std::fclose(out);
  const auto lines = lines_of(folder / "run" / "metrics.jsonl");
  EXPECT_EQ(steps_of(folder / "run" / "metrics.jsonl"), (std::vector<int64_t>{10, 20, 20, 25, 25}));
  EXPECT_EQ(lines[0].at("skipped"), 0);
  EXPECT_EQ(lines[1].at("skipped"), 2);  // of steps 11 to 20
  EXPECT_EQ(lines[1].at("nothing_scored"), 1);
  EXPECT_FALSE(lines[0].contains("nothing_scored"));
  EXPECT_EQ(lines[2].at("validation_loss"), 2.5);
  EXPECT_EQ(lines[3].at("skipped"), 0);
  EXPECT_EQ(lines[4].at("stopped"), "signal");
  const auto event_file =
      std::filesystem::directory_iterator(folder / "run" / "tensorboard")->path();
  EXPECT_THAT(read_file(event_file), testing::AllOf(testing::HasSubstr("train/loss"),
                                                    testing::HasSubstr("validation/loss")));
  EXPECT_THAT(
      read_file(display),
      testing::AllOf(testing::HasSubstr("step 10/25 | loss 3.2500 | lr 0.0003 | grad norm 1.5 | "
                                        "16.4k tokens/s"),
                     testing::HasSubstr("validation loss 2.5000"),
                     testing::Not(testing::HasSubstr("\r"))));
}

TEST(MetricsLog, WritesNothingThatIsNotAskedFor) {
  test::TemporaryFolder folder;
  MetricsLog log({.total_steps = 1});
  log.step(metrics(1));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(MetricsLog({.log_interval = 0}), ConfigError);
}

}  // namespace
}  // namespace viaduct
