// viaduct plan --calibration: step times on this CPU from a measured table.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "hardware/calibration.h"
#include "ops/cpu/cpu_ops.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// All rates of the table are `speed` times those of an invented machine.
Calibration made_up(double speed) {
  Calibration table;
  table.machine = {"a CPU",
                   std::string(cpu_isa_name(best_cpu_isa())),
                   2,
                   1,
                   int64_t{8} << 30,
                   "2026-01-02T03:04:05Z"};
  for (const char* dtype : {"bf16", "fp32"}) {
    table.peaks.push_back({dtype, "made up", 0.2 * speed});
    for (const char* form : {"forward", "data_gradient", "weight_gradient"})
      for (int64_t m : {128, 4096})
        for (int64_t width : {64, 4096})
          table.gemm.push_back({form, dtype, m, width, width, 0.1 * speed});
    for (const char* direction : {"forward", "backward"})
      for (int64_t length : {256, 4096})
        table.attention.push_back(
            {direction, dtype, length, 4096 / length, 8, 8, 64, 0.05 * speed});
  }
  for (const char* kind : {"read", "fill", "copy", "add", "adamw"})
    for (int64_t bytes : {1 << 19, 1 << 28}) table.streams.push_back({kind, bytes, 10 * speed});
  table.launch = {1 / speed, 1 / speed};
  for (int64_t bytes : {1 << 12, 1 << 24})
    table.all_reduce.push_back({2, bytes, static_cast<double>(bytes) * 1e-3 / speed, speed});
  return table;
}

class PlanCalibration : public testing::Test {
 protected:
  test::CommandResult plan(const Calibration& table, const std::string& more = "") {
    save_calibration(table, folder_ / "machine.yaml");
    return test::run_viaduct(
        command(" --calibration " + (folder_ / "machine.yaml").string() + " " + more));
  }
  static std::string command(const std::string& more) {
    return "plan --config " + (test::source_folder() / "configs/bench/llama_10m.yaml").string() +
           " --cluster cpu --rule-seconds 1e-9 dist.threads_per_rank=1 " + more;
  }
  json document(const Calibration& table, const std::string& more = "") {
    const auto run = plan(table, "--json " + more);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out);
  }
  static double step(const json& document) { return document["predicted"]["step_seconds"]; }

  const test::TemporaryFolder folder_;
};

TEST_F(PlanCalibration, ATableTwiceAsSlowGivesTwiceTheTime) {
  const json fast = document(made_up(1)), slow = document(made_up(0.5));
  const auto compute = [](const json& d) {
    return d["stages"][0]["seconds"]["compute"].get<double>();
  };
  EXPECT_NEAR(compute(slow) / compute(fast), 2, 0.01);
  EXPECT_NEAR(step(slow) / step(fast), 2, 0.05);
  const auto without = test::run_viaduct(command("--json"));
  ASSERT_EQ(without.status, 0) << without.err;
  EXPECT_NE(step(json::parse(without.out)), step(fast));
  EXPECT_FALSE(json::parse(without.out).contains("time_basis"));
}

TEST_F(PlanCalibration, SaysHowMuchIsMeasured) {
  Calibration table = made_up(1);
  const json before = document(table)["time_basis"];
  EXPECT_NEAR(before["measured"].get<double>() + before["interpolated"].get<double>() +
                  before["modelled"].get<double>(),
              1, 1e-9);
  EXPECT_EQ(before["measured"], 0);
  EXPECT_GT(before["interpolated"], 0.5);
  // 16 rows of 256 tokens; gate and up are the first matrix of the feed-forward layer.
  table.gemm.push_back({"forward", "bf16", 4096, 2048, 384, 1e-3});
  const json with = document(table);
  // Its time is that of the table's row: 6 layers, one micro-batch.
  const double row = 2.0 * 4096 * 2048 * 384 / 1e9;
  EXPECT_NEAR(with["time_basis"]["measured"].get<double>() * step(with), 6 * row, 0.03 * 6 * row);
}

TEST_F(PlanCalibration, RanksWithMoreThreadsThanCoresTakeTurns) {
  const auto compute = [&](int64_t cores) {
    Calibration table = made_up(1);
    table.machine.cores = cores;
    return document(table,
                    "dist.ranks=2 train.global_batch_size=32")["stages"][0]["seconds"]["compute"]
        .get<double>();
  };
  EXPECT_NEAR(compute(1) / compute(2), 2, 0.01);
  EXPECT_NEAR(compute(4) / compute(2), 1, 0.01);
}

TEST_F(PlanCalibration, SaysThatOtherRanksWereMeasuredAtTheSameTime) {
  Calibration table = made_up(1);  // of two cores
  const std::string two = "dist.ranks=2 train.global_batch_size=32";
  const auto notes = [&](const std::string& more) { return document(table, more)["notes"].dump(); };
  EXPECT_THAT(notes(two),
              AllOf(HasSubstr("1 in the table, 2 in the run"), HasSubstr("--threads 1 --ranks 2")));
  EXPECT_THAT(notes(""), Not(HasSubstr("in the table")));
  table.machine.ranks = 2;
  EXPECT_THAT(notes(two), Not(HasSubstr("in the table")));
  EXPECT_THAT(notes(""), HasSubstr("2 in the table, 1 in the run"));
  table.machine.cores = 1;  // two ranks take turns
  EXPECT_THAT(notes(two), HasSubstr("2 in the table, 1 in the run"));
  EXPECT_THAT(plan(table).out, HasSubstr("2 in the table"));
}

TEST_F(PlanCalibration, OtherTablesAreRefused) {
  Calibration table = made_up(1);
  table.machine.threads = 7;
  auto run = plan(table);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("the threads of a rank (1), found one of 7"));
  table = made_up(1);
  table.machine.kernels = "another";
  run = plan(table);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("kernels of the run"), HasSubstr("found one of another")));
  std::ofstream(folder_ / "other.yaml") << "model: {num_layers: 2}\n";
  run = test::run_viaduct(command("--calibration " + (folder_ / "other.yaml").string()));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("not a calibration table"));
  save_calibration(made_up(1), folder_ / "machine.yaml");
  const std::string given = " --calibration " + (folder_ / "machine.yaml").string();
  run = test::run_viaduct("plan --cluster dgx-h100 model.num_layers=2" + given);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("expected --cluster cpu, found dgx-h100"));
  run =
      test::run_viaduct("plan --cluster cpu --model llama3-8b --ranks 2 --global-batch 2" + given);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--calibration with --model has no effect"));
  run = test::run_viaduct(command("--explain" + given));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--calibration with --explain has no effect; expected --config"));
  run = test::run_viaduct(command("--spec-sheet" + given));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--spec-sheet with --calibration has no effect"));
}

/// The same table of an H100.
Calibration of_gpu(double speed) {
  Calibration table = made_up(speed);
  table.machine.gpu = "NVIDIA H100 80GB HBM3";
  table.machine.libraries = "driver 13.0";
  table.machine.kernels = "cuda:sm_90a";
  table.machine.memory_bytes = int64_t{80} << 30;
  table.all_reduce.clear();
  return table;
}

class PlanGpuCalibration : public PlanCalibration {
 protected:
  test::CommandResult gpu_plan(const Calibration& table, const std::string& more = "",
                               const std::string& cluster = "dgx-h100") {
    save_calibration(table, folder_ / "machine.yaml");
    return test::run_viaduct("plan --config " + config() + " --cluster " + cluster +
                             " --calibration " + (folder_ / "machine.yaml").string() +
                             " --rule-seconds 1e-9 --json " + more);
  }
  static std::string config() {
    return (test::source_folder() / "configs/bench/llama_10m.yaml").string();
  }
};

TEST_F(PlanGpuCalibration, TimesFollowTheTableAndPeaksTheCatalog) {
  const auto fast = gpu_plan(of_gpu(1)), slow = gpu_plan(of_gpu(0.5));
  ASSERT_EQ(fast.status, 0) << fast.err;
  const json a = json::parse(fast.out), b = json::parse(slow.out);
  const auto compute = [](const json& d) {
    return d["stages"][0]["seconds"]["compute"].get<double>();
  };
  EXPECT_NEAR(compute(b) / compute(a), 2, 0.02);
  EXPECT_GT(a["time_basis"]["interpolated"], 0.5);
  // Attention of 16 rows of 256 tokens, 6 heads of 64, 2 of keys, takes the time of its row: 5
  // products of visible pairs in the backward, though the kernel computes scores again.
  Calibration table = of_gpu(1);
  table.attention.push_back({"backward", "bf16", 256, 16, 6, 2, 64, 1e-4});
  const json with = json::parse(gpu_plan(table, "model.attention_backend=flash").out);
  const double row = 6 * 16 * 6 * (256 * 257 / 2) * 64 * 10.0 / 1e8;
  EXPECT_NEAR(with["time_basis"]["measured"].get<double>() * step(with), row, 0.03 * row);
  EXPECT_THAT(a["predicted"]["mfu_peak"].get<std::string>(),
              HasSubstr("dense of h100-sxm, 989.4 TFLOP/s"));
  EXPECT_THAT(a["basis"].get<std::string>(), HasSubstr("NVIDIA H100 80GB HBM3, driver 13.0"));
}

TEST_F(PlanGpuCalibration, RanksExchangeOverTheLinksOfTheCluster) {
  const auto run = gpu_plan(of_gpu(1), "dist.ranks=2 train.global_batch_size=32");
  ASSERT_EQ(run.status, 0) << run.err;
  const json with = json::parse(run.out);
  // The same without a table: its links are those of the catalog as well.
  const auto without = test::run_viaduct("plan --config " + config() +
                                         " --cluster dgx-h100 --rule-seconds 1e-9 --json "
                                         "dist.ranks=2 train.global_batch_size=32");
  ASSERT_EQ(without.status, 0) << without.err;
  const json catalog = json::parse(without.out);
  EXPECT_GT(with["time_basis"]["modelled"], 0);
  const auto busy = [](const json& d) {
    return d["stages"][0]["seconds"]["communication_busy"].get<double>();
  };
  EXPECT_NEAR(busy(with) / busy(catalog), 1, 0.01);
  // Not at the times of a cpu's table either.
  Calibration other = of_gpu(1);
  other.all_reduce.push_back({2, 4096, 1e9, 1});
  const auto same = gpu_plan(other, "dist.ranks=2 train.global_batch_size=32");
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(json::parse(same.out)["predicted"]["step_seconds"], with["predicted"]["step_seconds"]);
}

TEST_F(PlanGpuCalibration, TablesOfOtherGpusAreRefused) {
  auto run = gpu_plan(of_gpu(1), "", "dgx-h200");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("a table of NVIDIA H100 80GB HBM3"),
                             HasSubstr("dgx-h200 are h200 (NVIDIA H200)"),
                             HasSubstr("bench --calibrate --device cuda")));
  run = gpu_plan(of_gpu(1), "", "cpu");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("expected a --cluster of this GPU, found cpu"));
  Calibration table = of_gpu(1);
  table.machine.kernels = "cuda:sm_80";
  run = gpu_plan(table);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("kernels of the run (cuda:sm_90a), found one of cuda:sm_80"));
}

TEST_F(PlanCalibration, SeveralRanksNeedAllReduces) {
  Calibration table = made_up(1);
  table.all_reduce.clear();
  const auto several = plan(table, "dist.ranks=2 train.global_batch_size=32");
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err, AllOf(HasSubstr("a run of several ranks needs all_reduce rows"),
                                 HasSubstr("measure the table again")));
  // One rank sends nothing.
  const auto one = plan(table, "dist.ranks=1");
  EXPECT_EQ(one.status, 0) << one.err;
}

}  // namespace
}  // namespace viaduct
