// Calibration tables: what is written is read back, and the message for every kind of mistake names
// it.

#include "hardware/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::Not;

Calibration sample() {
  Calibration table;
  table.machine = {"A CPU: AVX2, \"quoted\"", "avx2", 4, 2, int64_t{8} << 30,
                   "2026-01-02T03:04:05Z",    3};
  table.peaks = {{"bf16", "BF16 AMX", 6.25}, {"fp32", "FP32 FMA", 0.4}};
  table.gemm = {{"forward", "bf16", 128, 64, 32, 1.5}, {"weight_gradient", "bf16", 128, 64, 32, 1}};
  table.attention = {{"backward", "fp32", 1024, 4, 12, 4, 64, 0.125}};
  table.streams = {{"copy", 1 << 20, 40.5}, {"copy", 1 << 28, 20.25}};
  table.launch = {0.5, 2.5};
  table.all_reduce = {{2, 4096, 0.75, 5.5}};
  return table;
}

/// The text of the sample with one piece replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_yaml(sample());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string problems_of(const std::string& text) {
  try {
    parse_calibration(text, "table.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Calibration, IsReadBackAsWritten) {
  const test::TemporaryFolder folder;
  save_calibration(sample(), folder / "table.yaml");
  const Calibration table = load_calibration(folder / "table.yaml");
  EXPECT_EQ(table.machine.cpu, sample().machine.cpu);
  EXPECT_EQ(table.machine.memory_bytes, int64_t{8} << 30);
  EXPECT_EQ(table.machine.ranks, 3);
  EXPECT_EQ(table.peaks.at(1).name, "FP32 FMA");
  EXPECT_EQ(table.gemm.at(1).form, "weight_gradient");
  EXPECT_EQ(table.gemm.at(0).n, 64);
  EXPECT_EQ(table.attention.at(0).kv_heads, 4);
  EXPECT_EQ(table.attention.at(0).tflops, 0.125);
  EXPECT_EQ(table.streams.at(1).gbytes_per_second, 20.25);
  EXPECT_EQ(table.launch.parallel_microseconds, 2.5);
  EXPECT_EQ(table.all_reduce.at(0).microseconds, 0.75);
  EXPECT_EQ(to_yaml(table), to_yaml(sample()));
}

TEST(Calibration, ATableOfAGpuNamesItAndItsLibraries) {
  Calibration table = sample();
  EXPECT_THAT(to_yaml(table), Not(HasSubstr("gpu")));
  table.machine.gpu = "NVIDIA H200";
  table.machine.libraries = "driver 13.0";
  const Calibration read = parse_calibration(to_yaml(table), "table.yaml");
  EXPECT_EQ(read.machine.gpu, "NVIDIA H200");
  EXPECT_EQ(read.machine.libraries, "driver 13.0");
  EXPECT_TRUE(parse_calibration(to_yaml(sample()), "table.yaml").machine.gpu.empty());
  EXPECT_THAT(problems_of(changed("threads: 2", "threads: 2, gpu: \"\"")),
              HasSubstr("machine.gpu: expected text"));
}

TEST(Calibration, AllReducesMayBeMissing) {
  Calibration table = sample();
  table.all_reduce.clear();
  const Calibration read = parse_calibration(to_yaml(table), "table.yaml");
  EXPECT_TRUE(read.all_reduce.empty());
  EXPECT_EQ(to_yaml(read), to_yaml(table));
  const std::string text = to_yaml(table);
  EXPECT_THAT(problems_of(text.substr(0, text.find("all_reduce"))),
              HasSubstr("section all_reduce is missing"));
}

TEST(Calibration, KeepsFourDigitsOfWhatWasMeasured) {
  Calibration table = sample();
  table.launch.op_microseconds = 0.000123456789;
  table.peaks[0].tflops = 123456.789;
  const Calibration read = parse_calibration(to_yaml(table), "table.yaml");
  EXPECT_DOUBLE_EQ(read.launch.op_microseconds, 0.0001235);
  EXPECT_DOUBLE_EQ(read.peaks[0].tflops, 123500);
}

TEST(Calibration, OtherFilesAndVersionsAreRefused) {
  EXPECT_THAT(problems_of("model: {num_layers: 2}"), HasSubstr("not a calibration table"));
  EXPECT_THAT(problems_of(""), HasSubstr("not a calibration table"));
  EXPECT_THAT(problems_of("[1, 2]"), HasSubstr("not a calibration table"));
  EXPECT_THAT(problems_of(changed("version: 2", "version: 1")),
              HasSubstr("version 2, found 1; measure it again"));
  EXPECT_THAT(problems_of("format: viaduct calibration"), HasSubstr("found none"));
  EXPECT_THROW(load_calibration("no-such-table.yaml"), IoError);
  EXPECT_THROW(save_calibration(sample(), "no-such-folder/table.yaml"), IoError);
}

TEST(Calibration, ProblemsSayWhereAndWhatWasExpected) {
  EXPECT_THAT(problems_of(changed("form: forward", "form: sideways")),
              HasSubstr("gemm[0].form: expected one of forward, data_gradient, weight_gradient, "
                        "found sideways"));
  EXPECT_THAT(problems_of(changed("n: 64", "n: 0")),
              HasSubstr("gemm[0].n: expected a whole number of at least 1, found 0"));
  EXPECT_THAT(problems_of(changed("n: 64", "n: 1.5")), HasSubstr("gemm[0].n: expected a whole"));
  for (const char* rate : {"-1", "0", ".nan", ".inf", "fast"}) {
    EXPECT_THAT(problems_of(changed("tflops: 0.125", "tflops: " + std::string(rate))),
                HasSubstr("attention[0].tflops: expected a number above 0"))
        << rate;
  }
  EXPECT_THAT(problems_of(changed("kernels: avx2, ", "")),
              HasSubstr("machine: kernels is missing"));
  EXPECT_THAT(problems_of(changed("kernels:", "kernel:")),
              HasSubstr("there is no field kernel; did you mean kernels?"));
  EXPECT_THAT(problems_of(changed("streams:", "stream:")),
              HasSubstr("there is no section stream; did you mean streams?"));
  EXPECT_THAT(problems_of(changed("form: weight_gradient", "form: forward")),
              HasSubstr("gemm[1]: a second row for forward, bf16, m 128, n 64, k 32"));
  EXPECT_THAT(problems_of(changed("n: 64", "n: 0")), HasSubstr("table.yaml:8"));
}

TEST(Calibration, AllProblemsAreReportedTogether) {
  const std::string text =
      "format: viaduct calibration\nversion: 2\ngemm: []\nlaunch: 3\n"
      "all_reduce: [4]\n";
  const std::string problems = problems_of(text);
  for (const char* problem :
       {"section machine is missing", "section peaks is missing",
        "gemm: expected a list of at least", "launch: expected a map of fields, found 3",
        "all_reduce[0]: expected a map of fields"})
    EXPECT_THAT(problems, HasSubstr(problem));
}

}  // namespace
}  // namespace viaduct
