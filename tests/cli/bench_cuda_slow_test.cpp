// `viaduct bench --device cuda` on the doubles of a GPU and its libraries: the command loads the
// library of the device and times by its events. Rates mean nothing there; the work that is counted
// and the form of the documents do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/json.h"
#include "hardware/calibration.h"
#include "support/command.h"
#include "support/cuda_double.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGpu =
    "emulated GPU (cuda:sm_90a; driver 13.0, runtime 13.0, cuBLASLt 13.1.0)";

test::CommandResult with_library(const std::string& library, const std::string& arguments) {
  return test::run_command("VIADUCT_CUDA_LIBRARY=" + library + " " + test::viaduct_binary() + " " +
                           arguments);
}
test::CommandResult on_double(const std::string& arguments) {
  return with_library(test::cuda_double_library(), arguments);
}

json document(const test::CommandResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  return json::parse(result.out);
}

// 2 documents of 16 tokens.
constexpr double kTokens = 32, kHidden = 32, kFfn = 48, kHeads = 4, kVocab = 50;
const std::string kTiny =
    "bench ops --tokens 32 --sequence 16 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --vocab 50 "
    "--rounds 1 ";

double flops(const json& op) {
  return op["tflops"].get<double>() * op["seconds"].get<double>() * 1e12;
}
double bytes(const json& op) {
  return op["gbytes_per_second"].get<double>() * op["seconds"].get<double>() * 1e9;
}

TEST(BenchCuda, OpsCountTheirWorkBesideTheCeilings) {
  const json found = document(on_double(kTiny + "--device cuda --json"));
  EXPECT_EQ(found["device"], kGpu);
  EXPECT_THAT(found["peak"].get<std::string>(), StartsWith("BF16 product "));
  EXPECT_GE(found["copy_bytes"], 2 << 20) << "more than the last cache";
  std::map<std::string, std::vector<json>> ops;
  for (const json& op : found["ops"]) {
    EXPECT_GT(op["seconds"], 0) << op;
    const bool product = op["bound"] == "product";
    const double ceiling = found[product ? "peak_tflops" : "copy_gbytes_per_second"];
    const double rate = op[product ? "tflops" : "gbytes_per_second"];
    EXPECT_NEAR(op["ceiling_fraction"].get<double>() * ceiling / rate, 1, 1e-9) << op;
    ops[op["op"]].push_back(op);
  }
  const std::map<std::string, size_t> expected{{"gemm", 9},
                                               {"attention_forward", 1},
                                               {"attention_delta", 1},
                                               {"attention_backward", 1},
                                               {"norm_forward", 1},
                                               {"norm_backward", 1},
                                               {"activation_forward", 1},
                                               {"activation_backward", 1},
                                               {"rotary", 1},
                                               {"copy", 1},
                                               {"add", 1},
                                               {"dropout", 1},
                                               {"embedding_forward", 1},
                                               {"embedding_backward", 1},
                                               {"cross_entropy_forward", 1},
                                               {"cross_entropy_backward", 1},
                                               {"reproducible_sum", 1},
                                               {"adamw", 1}};
  std::map<std::string, size_t> counts;
  for (const auto& [name, rows] : ops) counts[name] = rows.size();
  ASSERT_EQ(counts, expected);

  for (size_t i = 0; i < 9; ++i) {
    EXPECT_THAT(ops["gemm"][i]["kernel"].get<std::string>(), StartsWith("cublaslt"));
    const double work = 2 * kTokens * kHidden * (i < 3 ? kHidden : kFfn);
    EXPECT_NEAR(flops(ops["gemm"][i]) / work, 1, 1e-9) << ops["gemm"][i];
  }
  const double pairs = 2 * 16 * 17 / 2 * kHeads;
  EXPECT_NEAR(flops(ops["attention_forward"][0]) / (pairs * 8 * 2 * 2), 1, 1e-9);
  EXPECT_NEAR(flops(ops["attention_backward"][0]) / (pairs * 8 * 2 * 5), 1, 1e-9);
  EXPECT_NEAR(bytes(ops["add"][0]) / (3 * kTokens * kHidden * 2), 1, 1e-9);
  EXPECT_NEAR(bytes(ops["activation_forward"][0]) / (3 * kTokens * kFfn * 2), 1, 1e-9);
  EXPECT_NEAR(bytes(ops["cross_entropy_backward"][0]) / (2 * kTokens * kVocab * 4), 1, 0.1);
  // Masters, moments read and written, the gradient read, a BF16 weight written.
  EXPECT_NEAR(bytes(ops["adamw"][0]) / (kHidden * kFfn * (6 * 4 + 4 + 2)), 1, 0.01);

  const auto table = on_double(kTiny + "--device cuda");
  EXPECT_THAT(table.out, AllOf(HasSubstr(kGpu), HasSubstr("% of peak"), HasSubstr("% of copy"),
                               HasSubstr("measured\n")));
  // The same ops and work on the cpu.
  const json cpu = document(test::run_viaduct(kTiny + "--threads 1 --json"));
  ASSERT_EQ(cpu["ops"].size(), found["ops"].size());
  for (size_t i = 0; i < cpu["ops"].size(); ++i) {
    const json &here = cpu["ops"][i], &there = found["ops"][i];
    EXPECT_EQ(here["op"], there["op"]);
    EXPECT_EQ(here["shapes"], there["shapes"]);
    if (here["bound"] == "product") {
      EXPECT_NEAR(flops(here) / flops(there), 1, 1e-9) << here;
    }
  }
}

TEST(BenchCuda, SingleOpsAreTimedByEvents) {
  const json product =
      document(on_double("bench gemm --m 64 --n 48 --k 32 --rounds 1 --device cuda --json"));
  EXPECT_EQ(product["device"], kGpu);
  EXPECT_EQ(product["kernel"], "cublaslt_bf16");
  EXPECT_GT(product["tflops"], 0);
  EXPECT_NEAR(product["peak_fraction"].get<double>(),
              product["tflops"].get<double>() / product["peak_tflops"].get<double>(), 1e-9);
  const json attention = document(on_double(
      "bench attention --sequence 32 --batch 2 --heads 4 --kv-heads 2 --head-dim 16 --window 8 "
      "--rounds 1 --device cuda --json"));
  EXPECT_EQ(attention["device"], kGpu);
  const double pairs = 2 * 4 * (8 * 9 / 2 + 24 * 8);
  EXPECT_NEAR(flops(attention["forward"]) / (pairs * 16 * 2 * 2), 1, 1e-9);
  EXPECT_NEAR(flops(attention["backward"]) / (pairs * 16 * 2 * 5), 1, 1e-9);
}

TEST(BenchCuda, ACalibrationIsReadByThePlanOfThatGpu) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "gpu.yaml").string();
  const auto result = on_double("bench --calibrate --device cuda --seconds 0.5 --out " + path);
  ASSERT_EQ(result.status, 0) << result.err;
  const Calibration table = load_calibration(path);
  EXPECT_EQ(table.machine.gpu, "emulated GPU");
  EXPECT_EQ(table.machine.libraries, "driver 13.0, runtime 13.0, cuBLASLt 13.1.0");
  EXPECT_EQ(table.machine.kernels, "cuda:sm_90a");
  EXPECT_EQ(table.machine.memory_bytes, int64_t{4} << 30);
  ASSERT_EQ(table.peaks.size(), 2u);
  EXPECT_THAT(table.peaks[0].name, StartsWith("BF16 product "));
  for (const char* dtype : {"bf16", "fp32"}) {
    for (const char* form : {"forward", "data_gradient", "weight_gradient"}) {
      EXPECT_TRUE(
          std::any_of(table.gemm.begin(), table.gemm.end(),
                      [&](const auto& row) { return row.form == form && row.dtype == dtype; }))
          << form << " " << dtype;
    }
    EXPECT_TRUE(std::any_of(table.attention.begin(), table.attention.end(),
                            [&](const auto& row) { return row.dtype == dtype; }));
  }
  for (const CalibratedStream& row : table.streams) EXPECT_NE(row.kind, "read");
  EXPECT_TRUE(table.all_reduce.empty());

  std::ofstream(folder / "cluster.yaml")
      << "gpu: {architecture: sm_90a, reported_names: [emulated GPU], dense_tflops: {bf16: 100, "
         "f32: 50}, memory_gb: 4, memory_tb_per_second: 1, pcie_gb_per_second: 10, power_watts: "
         "100, source: none}\n"
         "domain: 2\nnic_gb_per_second: 10\noversubscription: 1\ngpus_per_host: 2\n"
         "host_memory_gb: 100\nsource: none\n";
  const json plan = document(test::run_viaduct(
      "plan --config " + (test::source_folder() / "configs/bench/llama_10m.yaml").string() +
      " --cluster " + (folder / "cluster.yaml").string() + " --calibration " + path +
      " --rule-seconds 1e-9 --json dist.ranks=2 train.global_batch_size=32"));
  EXPECT_THAT(plan["basis"].get<std::string>(),
              HasSubstr("gpu.yaml: emulated GPU, driver 13.0, runtime 13.0, cuBLASLt 13.1.0, "));
  const json basis = plan["time_basis"];
  EXPECT_NEAR(basis["measured"].get<double>() + basis["interpolated"].get<double>() +
                  basis["modelled"].get<double>(),
              1, 1e-9);
  EXPECT_GT(plan["predicted"]["step_seconds"], 0);
}

TEST(BenchCuda, WithoutAGpuItSaysWhatTrainSays) {
  const auto train = with_library("/nowhere/libviaduct_cuda.so",
                                  "train dist.device=cuda dataset.mock=true model.family=llama "
                                  "model.num_layers=1 model.hidden_size=64 "
                                  "model.num_attention_heads=4 model.vocab_size=64 "
                                  "model.seq_length=16 checkpoint.save=/nowhere");
  EXPECT_NE(train.status, 0);
  EXPECT_THAT(train.err, HasSubstr("dist.device=cuda: libviaduct_cuda.so cannot be loaded"));
  for (const char* what : {"ops", "gemm", "attention", "--calibrate"}) {
    const auto bench = with_library("/nowhere/libviaduct_cuda.so",
                                    std::string("bench ") + what + " --device cuda");
    EXPECT_EQ(bench.status, train.status) << what;
    EXPECT_EQ(bench.err, train.err) << what;
    EXPECT_EQ(bench.out, "") << what;
  }
}

TEST(BenchCuda, OptionsOfTheCpuAreRefused) {
  for (const char* what : {"gemm --threads 2", "gemm --cpu-isa avx2", "attention --threads 1",
                           "ops --threads 1", "--calibrate --threads 1"}) {
    const auto bench = on_double(std::string("bench ") + what + " --device cuda");
    EXPECT_EQ(bench.status, 2) << what;
    EXPECT_THAT(bench.err, HasSubstr("with --device cuda has no effect")) << what;
  }
  EXPECT_EQ(on_double("bench gemm --device tpu").status, 2);
  const auto step = on_double("bench step --profile dist.device=cuda --config " +
                              (test::source_folder() / "configs/bench/llama_10m.yaml").string());
  EXPECT_EQ(step.status, 2);
  EXPECT_THAT(step.err, HasSubstr("--profile with dist.device=cuda"));
}

TEST(BenchCuda, AStepHasNoPeakOfTheHost) {
  const json step = document(
      on_double("bench step --json --steps 1 --warmup 1 dist.device=cuda model.num_layers=1 "
                "model.seq_length=16 train.global_batch_size=2 train.micro_batch_size=1 --config " +
                (test::source_folder() / "configs/bench/llama_10m.yaml").string()));
  EXPECT_GT(step["tokens_per_second"], 0);
  EXPECT_TRUE(step["mfu"].is_null());
  EXPECT_EQ(step["peak"], "peak unknown");
}

TEST(BenchCuda, ARunHasNoMfuOfTheHost) {
  const test::TemporaryFolder folder;
  const auto run =
      on_double("train " + (test::source_folder() / "configs/bench/llama_10m.yaml").string() +
                " dist.device=cuda model.num_layers=1 model.seq_length=16 "
                "train.global_batch_size=2 train.micro_batch_size=1 train.train_iters=1 "
                "logger.log_interval=1 validation.eval_iters=0 checkpoint.save=" +
                folder.path().string());
  ASSERT_EQ(run.status, 0) << run.err;
  std::ifstream lines(folder / "metrics.jsonl");
  std::string line;
  int steps = 0;
  while (std::getline(lines, line)) {
    const json metrics = json::parse(line);
    if (!metrics.contains("tokens_per_second")) continue;
    EXPECT_TRUE(metrics["mfu"].is_null()) << line;
    ++steps;
  }
  EXPECT_EQ(steps, 1);
}

}  // namespace
}  // namespace viaduct
