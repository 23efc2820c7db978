// `viaduct bench` on a tiny problem: the document has the fields that scripts read, and its rates
// equal work counted by hand over measured times. Times are checked only against the command's
// duration and the machine's peak by its registers.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/json.h"
#include "hardware/calibration.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using Result = test::CommandResult;

Result bench(const std::string& arguments) {
  return test::run_viaduct("bench " + arguments);
}

/// A document, and the duration of its command in seconds: an upper bound of its measurements.
struct Measured {
  nlohmann::json document;
  double seconds = 0;
};
Measured measure(const std::string& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const Result result = bench(arguments + " --json");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.status, 0) << result.err;
  return {nlohmann::json::parse(result.out), took.count()};
}

// The peak of one thread: two FMAs of 8 floats a cycle, of 16 with AVX-512, and no clock is above 7
// GHz.
constexpr double kMostAvx2Tflops = 2 * 2 * 8 * 7e-3, kMostAvx512Tflops = 2 * kMostAvx2Tflops;

TEST(BenchCommand, AttentionMeasuresForwardAndBackward) {
  const auto [document, took] = measure(
      "attention --sequence 64 --batch 2 --heads 4 --kv-heads 2 --head-dim 16 --rounds 3 "
      "--threads 1 --dtype fp32");
  double measured = 0;
  EXPECT_EQ(document["kv_heads"], 2);
  EXPECT_GT(document["peak_tflops"], 0);
  for (const char* half : {"forward", "backward"}) {
    EXPECT_GT(document[half]["seconds"], 0) << half;
    EXPECT_LT(document[half]["tflops"], kMostAvx512Tflops) << half;
    measured += 2 * document[half]["seconds"].get<double>();  // at least half of three rounds
    // FLOPs of the visible pairs: 2 for each of 2 (forward) or 5 (backward) products.
    const double flops =
        2.0 * (64 * 65 / 2) * 4 * 2 * 16 * (std::string(half) == "forward" ? 2 : 5);
    const double seconds = document[half]["seconds"];
    EXPECT_NEAR(static_cast<double>(document[half]["tflops"]) * seconds * 1e12 / flops, 1, 1e-9);
  }
  EXPECT_LT(measured, took);
}

TEST(BenchCommand, CollectivesCountWhatABusWouldCarry) {
  const auto on_the_bus = [](const std::string& op, int ranks) {
    const auto [document, took] = measure("collective --bytes 12000 --rounds 1 --op " + op +
                                          " --ranks " + std::to_string(ranks));
    EXPECT_GT(document["copy_gbytes_per_second"], 0) << op;
    EXPECT_LT(document["copy_gbytes_per_second"], 1000.0 * ranks) << op << ": a terabyte a second";
    EXPECT_GT(document["microseconds"], 0) << op;
    EXPECT_LT(document["microseconds"].get<double>() * 1e-6, took) << op;
    EXPECT_EQ(document["bytes"], 12000);
    EXPECT_EQ(document["ranks"], ranks);
    return document["microseconds"].get<double>() *
           document["bus_gbytes_per_second"].get<double>() / 12;  // bytes / 1000 sent on the bus
  };
  EXPECT_NEAR(on_the_bus("all_reduce", 3), 4.0 / 3, 1e-9);
  for (const char* part : {"all_gather", "reduce_scatter", "all_to_all"})
    EXPECT_NEAR(on_the_bus(part, 3), 2.0 / 3, 1e-9) << part;
  EXPECT_NEAR(on_the_bus("broadcast", 2), 1, 1e-9);
  EXPECT_NEAR(on_the_bus("send", 2), 1, 1e-9);
  EXPECT_EQ(on_the_bus("barrier", 2), 0);
  EXPECT_EQ(bench("collective --op all_reduce --ranks 1").status, 2);
}

TEST(BenchCommand, CalibrationWritesATableThatIsReadBack) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "machine.yaml").string();
  const Result result = bench("--calibrate --seconds 0.5 --threads 1 --out " + path);
  ASSERT_EQ(result.status, 0) << result.err;
  const Calibration table = load_calibration(path);
  EXPECT_EQ(table.machine.threads, 1);
  EXPECT_EQ(table.machine.ranks, table.machine.cores);
  EXPECT_GT(table.machine.memory_bytes, int64_t{1} << 26);
  EXPECT_EQ(table.peaks.size(), 2u);
  EXPECT_EQ(table.streams.size(), 15u);  // longer calibrations have larger ones
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
  const Result gpu = bench("--calibrate --device cuda --ranks 2");
  EXPECT_EQ(gpu.status, 2);
  EXPECT_NE(gpu.err.find("--ranks 2 with --device cuda has no effect"), std::string::npos);
  EXPECT_EQ(bench("--out table.yaml gemm").status, 2);
}

TEST(BenchCommand, GemmGivesItsFractionOfThePeak) {
  for (const char* form : {"forward", "data_gradient", "weight_gradient"}) {
    const auto [document, took] = measure(
        std::string("gemm --m 64 --n 48 --k 32 --dtype bf16 --rounds 3 --threads 1 --form ") +
        form);
    EXPECT_EQ(document["form"], form);
    EXPECT_GT(document["tflops"], 0);
    // A round is at least 0.02 s of products, or 10,000 of them.
    const double product = 2.0 * 64 * 48 * 32 / document["tflops"].get<double>() * 1e-12;
    EXPECT_LT(2 * product, took) << "at least half of three rounds";
    EXPECT_NEAR(document["peak_fraction"].get<double>(),
                document["tflops"].get<double>() / document["peak_tflops"].get<double>(), 1e-9);
  }
  const auto forced =
      measure("gemm --m 64 --n 48 --k 32 --dtype fp32 --cpu-isa avx2 --threads 1").document;
  EXPECT_EQ(forced["kernel"], "tiles_avx2");
  EXPECT_LT(forced["tflops"], kMostAvx2Tflops);
  EXPECT_LT(forced["peak_tflops"], kMostAvx2Tflops);
  EXPECT_EQ(bench("gemm --m 64 --n 48 --k 32 --form sideways").status, 2);
}

TEST(BenchCommand, StepMeasuresWholeSteps) {
  const auto [document, took] = measure(
      "step --config " + test::source_folder().string() +
      "/configs/bench/llama_10m.yaml model.num_layers=1 model.seq_length=16 "
      "train.global_batch_size=2 train.micro_batch_size=1 dist.cpu_isa=avx2 --steps 2 --warmup 1 "
      "--profile");
  EXPECT_EQ(document["config"]["model"]["num_layers"], 1);
  EXPECT_NEAR(document["tokens_per_second"].get<double>() *
                  document["step_seconds"]["median"].get<double>(),
              32, 1e-6);
  const auto step = document["step_seconds"];
  EXPECT_LE(step["min"], step["median"]);
  EXPECT_LE(step["median"], step["max"]);
  EXPECT_LT(step["min"].get<double>() + step["max"].get<double>(), took) << "two steps";
  double phases = 0;
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    EXPECT_GT(document["phases"][phase], 0) << phase;
    phases += document["phases"][phase].get<double>();
  }
  EXPECT_LE(phases, step["max"].get<double>()) << "of a step on average";

  // One block over 32 tokens in rows of 16: q 384, k and v 128, f 1024, vocabulary 256.
  const double h = 384, kv = 128, f = 1024, tokens = 32;
  const double block = h * (h + 2 * kv) + h * h + 3 * h * f, head = h * 256;
  const double products = 6 * tokens * (block + head);
  EXPECT_GE(document["ops"]["gemm (tiles_avx2)"]["flops"], products);
  EXPECT_LT(document["ops"]["gemm (tiles_avx2)"]["flops"], 1.01 * products) << "with epilogues";
  // The convention adds causal attention: 6 · q for each pair of tokens in a row.
  const double model = products + 6 * h * (2 * 16 * 16);
  EXPECT_NEAR(document["tflops_per_rank"].get<double>() * step["median"].get<double>() * 1e12,
              model, 1e-6 * model);
  EXPECT_GT(document["mfu"], 0);
  EXPECT_LT(document["mfu"], 1);
  // FP32 masters and two moments of every weight are held at least.
  EXPECT_GT(document["peak_memory_bytes"], 12 * (block + head));
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
