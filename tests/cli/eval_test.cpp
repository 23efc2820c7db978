// `viaduct eval` as scripts use it, on a model with random weights.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/language_model.h"

namespace viaduct {
namespace {

using nlohmann::json;

class EvalCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  EvalCommand() {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the cat and the hat and the rat\n";
    write_file_atomically(model_ / "text", text);
  }
  Result run(const std::string& arguments, const std::string& data = "text") {
    return test::run_viaduct("eval --model " + model_.path().string() + " --data " +
                             (model_ / data).string() + " dist.threads_per_rank=1 " + arguments);
  }
  void expect(const Result& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  test::LanguageModel model_;
};

TEST_F(EvalCommand, PrintsAScoreAsATableOrJson) {
  const Result result = run("--sequence-length 32 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json score = json::parse(result.out);
  EXPECT_EQ(score.size(), 5u);
  EXPECT_DOUBLE_EQ(score.at("perplexity"), std::exp(score.at("loss").get<double>()));
  EXPECT_GT(score.at("bits_per_byte"), 0);
  EXPECT_GT(score.at("tokens"), 100);
  EXPECT_GT(score.at("seconds"), 0);
  const Result table = run("--sequence-length 32");
  EXPECT_NE(table.out.find(fmt::format("{:.6f}", score.at("loss").get<double>())),
            std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("bits per byte"), std::string::npos);
}

TEST_F(EvalCommand, ATextAndItsDataSetHaveTheSameScore) {
  ASSERT_EQ(test::run_viaduct("data tokenize --no-append-eod --input " +
                              (model_ / "text").string() + " --tokenizer " +
                              model_.path().string() + " --output " + (model_ / "data").string())
                .status,
            0);
  const json text = json::parse(run("--sequence-length 32 --stride 16 --json").out),
             data = json::parse(run("--sequence-length 32 --stride 16 --json", "data").out);
  EXPECT_EQ(text.at("tokens"), data.at("tokens"));
  EXPECT_EQ(text.at("loss"), data.at("loss"));
  EXPECT_EQ(text.at("bits_per_byte"), data.at("bits_per_byte"));
  // A file of the data set is not text, and its ids belong to this tokenizer only.
  expect(run("--sequence-length 32", "data.bin"), 2, "half of a data set");
  std::filesystem::rename(model_ / "data.bin", model_ / "binary");
  expect(run("--sequence-length 32", "binary"), 1, "binary");
}

TEST_F(EvalCommand, RunsOnSeveralRanks) {
  const json one = json::parse(run("--sequence-length 32 --json").out),
             two = json::parse(run("--sequence-length 32 --json dist.ranks=2 "
                                   "model.tensor_model_parallel_size=2")
                                   .out);
  EXPECT_EQ(one.at("tokens"), two.at("tokens"));
  EXPECT_NEAR(one.at("loss").get<double>(), two.at("loss").get<double>(), 1e-5);
}

TEST_F(EvalCommand, ADryRunStartsNothing) {
  std::filesystem::remove(model_ / "model.safetensors");
  const Result result = run("--sequence-length 32 --dry-run --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json stage = json::parse(result.out).at("stages").at(0);
  EXPECT_GT(stage.at("memory_by_owner").at("weights"), 0);
  EXPECT_EQ(stage.at("memory_by_owner").count("moments"), 0u);
}

TEST_F(EvalCommand, SaysWhatIsWrong) {
  expect(run("--sequence-length 32 --stride 33"), 2, "--stride");
  expect(run("--sequence-length 4096"), 2, "the model's 128 learned positions");
  expect(run("--sequence-length 0"), 2, "sequence-length");
  expect(run("train.train_iters=3"), 2, "does not read train.train_iters");
  expect(run("--sequence-length 33 dist.ranks=2 model.context_parallel_size=2"), 2,
         "context_parallel_size");
  expect(run("", "nothing"), 2, "neither");
  std::filesystem::remove(model_ / "model.safetensors");
  expect(run("--sequence-length 32"), 1, "safetensors");
}

}  // namespace
}  // namespace viaduct
