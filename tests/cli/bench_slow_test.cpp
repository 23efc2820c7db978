// `viaduct bench` on a tiny problem: the document has what scripts read.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hardware/calibration.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using Result = test::CommandResult;

Result bench(const std::string& arguments) {
  return test::run_viaduct("bench " + arguments);
}

TEST(BenchCommand, AttentionMeasuresForwardAndBackward) {
  const Result result = bench(
      "attention --sequence 64 --batch 2 --heads 4 --kv-heads 2 --head-dim 16 --rounds 1 "
      "--threads 1 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["kv_heads"], 2);
  EXPECT_GT(document["peak_tflops"], 0);
  for (const char* half : {"forward", "backward"}) {
    EXPECT_GT(document[half]["seconds"], 0) << half;
    // FLOPs of the visible pairs: 2 for each of 2 (forward) or 5 (backward) products.
    const double flops =
        2.0 * (64 * 65 / 2) * 4 * 2 * 16 * (std::string(half) == "forward" ? 2 : 5);
    const double seconds = document[half]["seconds"];
    EXPECT_NEAR(static_cast<double>(document[half]["tflops"]) * seconds * 1e12 / flops, 1, 1e-9);
  }
}

TEST(BenchCommand, CollectivesCountWhatABusWouldCarry) {
  const auto measure = [](const std::string& op, int ranks) {
    const Result result = bench("collective --bytes 12000 --rounds 1 --json --op " + op +
                                " --ranks " + std::to_string(ranks));
    EXPECT_EQ(result.status, 0) << result.err;
    const auto document = nlohmann::json::parse(result.out);
    EXPECT_GT(document["copy_gbytes_per_second"], 0) << op;
    return document["microseconds"].get<double>() *
           document["bus_gbytes_per_second"].get<double>() / 12;  // bytes / 1000 moved on the bus
  };
  EXPECT_NEAR(measure("all_reduce", 3), 4.0 / 3, 1e-9);
  for (const char* part : {"all_gather", "reduce_scatter", "all_to_all"})
    EXPECT_NEAR(measure(part, 3), 2.0 / 3, 1e-9) << part;
  EXPECT_NEAR(measure("broadcast", 2), 1, 1e-9);
  EXPECT_NEAR(measure("send", 2), 1, 1e-9);
  EXPECT_EQ(measure("barrier", 2), 0);
  EXPECT_EQ(bench("collective --op all_reduce --ranks 1").status, 2);
}

TEST(BenchCommand, CalibrationWritesATableThatIsReadBack) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "machine.yaml").string();
  const Result result = bench("--calibrate --seconds 0.5 --threads 1 --out " + path);
  ASSERT_EQ(result.status, 0) << result.err;
  const Calibration table = load_calibration(path);
  EXPECT_EQ(table.machine.threads, 1);
  EXPECT_GT(table.machine.memory_bytes, int64_t{1} << 26);
  EXPECT_EQ(table.peaks.size(), 2u);
  EXPECT_EQ(table.streams.size(), 10u);
  EXPECT_GE(table.all_reduce.size(), 2u);
  for (const char* form : {"forward", "data_gradient", "weight_gradient"}) {
    for (const char* dtype : {"bf16", "fp32"}) {
      EXPECT_TRUE(std::any_of(table.gemm.begin(), table.gemm.end(),
                              [&](const auto& row) {
                                return row.form == form && row.dtype == dtype && row.tflops < 1000;
                              }))
          << form << " " << dtype;
    }
  }
  EXPECT_FALSE(table.attention.empty());
}

TEST(BenchCommand, CalibrationStandsAlone) {
  EXPECT_EQ(bench("").status, 2);
  EXPECT_EQ(bench("--calibrate gemm").status, 2);
  EXPECT_EQ(bench("--out table.yaml gemm").status, 2);
}

TEST(BenchCommand, GemmGivesItsFractionOfThePeak) {
  for (const char* form : {"forward", "data_gradient", "weight_gradient"}) {
    const Result result =
        bench(std::string("gemm --m 64 --n 48 --k 32 --dtype bf16 --json --form ") + form);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto document = nlohmann::json::parse(result.out);
    EXPECT_GT(document["tflops"], 0);
    EXPECT_NEAR(document["peak_fraction"].get<double>(),
                document["tflops"].get<double>() / document["peak_tflops"].get<double>(), 1e-9);
  }
  const Result forced = bench("gemm --m 64 --n 48 --k 32 --cpu-isa avx2 --json");
  ASSERT_EQ(forced.status, 0) << forced.err;
  EXPECT_EQ(nlohmann::json::parse(forced.out)["kernel"], "tiles_avx2");
  EXPECT_EQ(bench("gemm --m 64 --n 48 --k 32 --form sideways").status, 2);
}

TEST(BenchCommand, StepMeasuresWholeSteps) {
  const Result result = bench(
      "step --config " + test::source_folder().string() +
      "/configs/bench/llama_10m.yaml model.num_layers=1 model.seq_length=16 "
      "train.global_batch_size=2 train.micro_batch_size=1 dist.cpu_isa=avx2 --steps 2 --warmup 1 "
      "--profile --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["config"]["model"]["num_layers"], 1);
  EXPECT_NEAR(document["tokens_per_second"].get<double>() *
                  document["step_seconds"]["median"].get<double>(),
              32, 1e-6);
  EXPECT_GT(document["mfu"], 0);
  EXPECT_GT(document["peak_memory_bytes"], 0);
  for (const char* phase : {"forward", "backward", "optimizer"})
    EXPECT_GT(document["phases"][phase], 0) << phase;
  EXPECT_GT(document["ops"]["gemm (tiles_avx2)"]["flops"], 0);
}

TEST(BenchCommand, TheRowsOfAProfileAddUpToTheStep) {
  const std::string step =
      "step --config " + test::source_folder().string() +
      "/configs/bench/llama_10m.yaml model.num_layers=1 model.seq_length=16 dist.ranks=2 "
      "train.global_batch_size=2 train.micro_batch_size=1 --steps 2 --warmup 1 ";
  const Result result = bench(step + "--profile --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const auto profile = nlohmann::json::parse(result.out)["profile"];
  EXPECT_EQ(profile["steps"], 2);
  const double step_seconds = profile["step_seconds"];
  for (const char* table : {"rows", "over_phases"}) {
    double seconds = 0, share = 0;
    for (const auto& row : profile[table]) {
      seconds += row["seconds"].get<double>();
      share += row["share"].get<double>();
      if (row["kind"] == "op" && row["name"] == "gemm") {
        EXPECT_GT(row["roofline_fraction"], 0);
      }
    }
    EXPECT_NEAR(seconds, step_seconds, 1e-6 * step_seconds) << table;
    EXPECT_NEAR(share, 1, 1e-6) << table;
  }
  std::set<std::string> phases, kinds;
  for (const auto& row : profile["rows"]) phases.insert(row["phase"]), kinds.insert(row["kind"]);
  EXPECT_EQ(kinds, (std::set<std::string>{"op", "communication", "host"}));
  for (const char* phase : {"data", "forward", "backward", "optimizer", "step"})
    EXPECT_TRUE(phases.count(phase)) << phase;
  for (const char* peak : {"f32_tflops", "bf16_tflops", "read_gbytes_per_second",
                           "copy_gbytes_per_second", "triad_gbytes_per_second"})
    EXPECT_GT(profile["peaks"][peak], 0) << peak;
  const Result table = bench(step + "--profile --memory lists");
  EXPECT_NE(table.out.find("forward: "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("all phases"), std::string::npos);
  EXPECT_EQ(bench(step + "--memory nowhere").status, 2);
}

TEST(BenchCommand, RefusesWhatCannotBe) {
  EXPECT_EQ(bench("attention --heads 4 --kv-heads 3").status, 2);
  EXPECT_EQ(bench("attention --sequence 0").status, 2);
  EXPECT_EQ(bench("attention --dtype int8").status, 2);
  EXPECT_EQ(bench("attention --sequence 1000000000 --batch 1000").status, 2);
  EXPECT_EQ(bench("step --config /no/such/file.yaml").status, 2);
}

}  // namespace
}  // namespace viaduct
