// `viaduct generate` as scripts use it, on a model with random weights.

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::test_data;

class GenerateCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  void SetUp() override {
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(test_data("golden/gpt2/model") / file, folder_ / file);
    const std::string path = folder_.path().string();
    write_file_atomically(folder_ / "text", "the cat and the hat and the rat");
    const Result trained = test::run_viaduct("tokenizer train --vocab-size 262 --input " + path +
                                             "/text --output " + path);
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  Result run(const std::string& arguments) {
    return test::run_viaduct("generate --model " + folder_.path().string() +
                             " dist.threads_per_rank=2 " + arguments);
  }

  test::TemporaryFolder folder_;
};

TEST_F(GenerateCommand, GreedyIsTheSameEveryTime) {
  const std::string arguments = "--prompt 'ROMEO:' --temperature 0 --max-new-tokens 20";
  const Result text = run(arguments);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.find("ROMEO:"), 0u);
  EXPECT_EQ(run(arguments + " --seed 99").out, text.out);

  const Result result = run(arguments + " --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document.at("prompt"), "ROMEO:");
  EXPECT_EQ(text.out, "ROMEO:" + document.at("text").get<std::string>() + "\n");
  EXPECT_EQ(document.at("tokens").size(), 20u);
  EXPECT_EQ(document.at("stop_reason"), "length");
  EXPECT_GT(document.at("tokens_per_second").get<double>(), 0);
}

TEST_F(GenerateCommand, SamplesBySeed) {
  const std::string arguments =
      "--prompt 'The ' --temperature 0.8 --top-k 40 --top-p 0.95 --max-new-tokens 24 "
      "mixed_precision=bf16_mixed --seed ";
  const Result first = run(arguments + "1");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(run(arguments + "1").out, first.out);
  EXPECT_NE(run(arguments + "2").out, first.out);
}

TEST_F(GenerateCommand, StopsAtTheEndToken) {
  const json whole = json::parse(run("--prompt x --temperature 0 --max-new-tokens 12 --json").out);
  const auto tokens = whole.at("tokens").get<std::vector<int>>();
  // One that the tokenizer knows.
  const auto end = std::find_if(tokens.begin(), tokens.end(), [](int id) { return id < 262; });
  ASSERT_NE(end, tokens.end());
  write_file_atomically(folder_ / "generation_config.json",
                        json{{"eos_token_id", {261, *end}}}.dump());
  const json stopped =
      json::parse(run("--prompt x --temperature 0 --max-new-tokens 12 --json").out);
  EXPECT_EQ(stopped.at("stop_reason"), "stop_token");
  EXPECT_EQ(stopped.at("stop_token"), *end);
  EXPECT_EQ(stopped.at("tokens").get<std::vector<int>>(), std::vector<int>(tokens.begin(), end));
}

TEST_F(GenerateCommand, EndsWhereThePositionsEnd) {
  const json document = json::parse(run("--prompt x --temperature 0 --json").out);
  EXPECT_EQ(document.at("tokens").size() + document.at("prompt_tokens").size(), 128u);
}

TEST_F(GenerateCommand, SaysWhatIsWrong) {
  const auto expect = [&](const Result& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  expect(run("--prompt x --max-new-tokens 128"), 2, "128 positions");
  expect(run("--prompt x --max-new-tokens -1"), 2, "max-new-tokens");
  expect(run("--prompt x --temperature -1"), 2, "temperature");
  expect(run("--prompt x --top-p 0"), 2, "top-p");
  expect(run("--prompt x mixed_precision=fp33"), 2, "fp32");
  expect(run(""), 2, "--prompt");
  std::string words;
  for (int i = 0; i < 300; ++i) words += "abc ";
  expect(run("--prompt '" + words + "'"), 2, "no room");
  std::filesystem::remove(folder_ / "model.safetensors");
  expect(run("--prompt x"), 1, "safetensors");
  std::filesystem::remove(folder_ / "config.json");
  expect(run("--prompt x"), 1, "not a model");
}

}  // namespace
}  // namespace viaduct
