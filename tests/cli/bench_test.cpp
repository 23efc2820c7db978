// `viaduct bench` on a tiny problem: the document has what scripts read.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

struct Result {
  int status = -1;
  std::string out, err;
};

Result bench(const std::string& arguments) {
  test::TemporaryFolder folder;
  const std::string path = folder.path().string();
  const std::string line =
      std::string(VIADUCT_BINARY) + " bench " + arguments + " >" + path + "/out 2>" + path + "/err";
  const int status = std::system(line.c_str());
  return {WEXITSTATUS(status), read_file(folder / "out"), read_file(folder / "err")};
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

TEST(BenchCommand, RefusesWhatCannotBe) {
  EXPECT_EQ(bench("attention --heads 4 --kv-heads 3").status, 2);
  EXPECT_EQ(bench("attention --sequence 0").status, 2);
  EXPECT_EQ(bench("attention --dtype int8").status, 2);
  EXPECT_EQ(bench("attention --sequence 1000000000 --batch 1000").status, 2);
}

}  // namespace
}  // namespace viaduct
