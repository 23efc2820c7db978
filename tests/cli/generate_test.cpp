// `viaduct generate` as scripts use it, on a model with random weights.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
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
  EXPECT_EQ(run(arguments + "-3").status, 2);
}

// Prompts and single tokens are no multiple of the rows that quantized products need in training.
TEST_F(GenerateCommand, PromptsOfAnyLengthInFourAndEightBits) {
  for (const char* recipe :
       {"bf16_with_nvfp4_mixed", "bf16_with_mxfp8_mixed", "bf16_with_fp8_current_scaling_mixed"}) {
    for (const char* prompt : {"x", "the cat and the hat"}) {
      const Result result = run("--prompt '" + std::string(prompt) +
                                "' --temperature 0 --max-new-tokens 3 mixed_precision=" + recipe);
      EXPECT_EQ(result.status, 0) << recipe << " " << result.err;
      EXPECT_EQ(result.out.find(prompt), 0u) << recipe;
    }
  }
}

TEST_F(GenerateCommand, StopsAtTheEndToken) {
  const json whole = json::parse(run("--prompt x --temperature 0 --max-new-tokens 12 --json").out);
  const auto tokens = whole.at("tokens").get<std::vector<int>>();
  // A token that the tokenizer knows.
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

TEST_F(GenerateCommand, ContinuesManyPromptsInTheirOrder) {
  const std::vector<std::string> prompts{"the cat and the hat", "x", "the rat", "and the hat and"};
  std::string lines, jsonl, arguments;
  std::vector<json> alone;
  for (const std::string& prompt : prompts) {
    lines += prompt + "\n";
    jsonl += json{{"prompt", prompt}}.dump() + "\n";
    arguments += " '" + prompt + "'";
    alone.push_back(json::parse(
        run("--temperature 0 --max-new-tokens 8 --json --prompt '" + prompt + "'").out));
  }
  write_file_atomically(folder_ / "prompts.txt", lines);
  write_file_atomically(folder_ / "prompts.jsonl", jsonl);
  const std::string path = folder_.path().string();
  const std::string common = " --temperature 0 --max-new-tokens 8 --json --batch-size 3 ";
  for (const auto& [source, input] :
       {std::pair<std::string, std::string>("--prompt" + arguments + " dist.ranks=1", ""),
        {"--prompt-file " + path + "/prompts.txt", ""},
        {"--prompt-file " + path + "/prompts.jsonl dist.ranks=2", ""},
        {"-", lines},
        {"--prompt-file -", jsonl},
        {"- dist.ranks=2 model.tensor_model_parallel_size=2", jsonl}}) {
    const Result result = test::run_viaduct(
        "generate --model " + path + " dist.threads_per_rank=1 " + common + source, input);
    ASSERT_EQ(result.status, 0) << source << "\n" << result.err;
    std::istringstream out(result.out);
    for (const json& expected : alone) {
      std::string line;
      ASSERT_TRUE(std::getline(out, line)) << source;
      const json found = json::parse(line);
      EXPECT_EQ(found.at("prompt"), expected.at("prompt")) << source;
      EXPECT_EQ(found.at("tokens"), expected.at("tokens")) << source;
      EXPECT_EQ(found.at("text"), expected.at("text")) << source;
    }
  }
  const Result text = run("--temperature 0 --max-new-tokens 8 --prompt" + arguments);
  std::string expected;
  for (const json& one : alone) {
    expected += (expected.empty() ? "" : "\n") + one.at("prompt").get<std::string>() +
                one.at("text").get<std::string>() + "\n";
  }
  EXPECT_EQ(text.out, expected);
}

TEST_F(GenerateCommand, EndsAtAStopString) {
  const std::string arguments = "--prompt x --temperature 0 --max-new-tokens 24";
  const std::string whole = json::parse(run(arguments + " --json").out).at("text");
  // Random weights write few readable characters; this one needs no quoting in a shell.
  const auto letter = std::find_if(whole.begin(), whole.end(),
                                   [](unsigned char c) { return std::isalnum(c) != 0; });
  ASSERT_NE(letter, whole.end()) << whole;
  const std::string stop(1, *letter);
  const json stopped = json::parse(run(arguments + " --json --stop zzz " + stop).out);
  EXPECT_EQ(stopped.at("text"), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped.at("stop_reason"), "stop_string");
  EXPECT_EQ(stopped.at("stop_string"), stop);
  EXPECT_EQ(run(arguments + " --stop " + stop).out, "x" + whole.substr(0, whole.find(stop)) + "\n");
}

TEST_F(GenerateCommand, ADryRunStartsNothing) {
  std::filesystem::remove(folder_ / "model.safetensors");
  const Result result = run("--prompt x --max-new-tokens 100 --dry-run --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json owners = json::parse(result.out).at("stages").at(0).at("memory_by_owner");
  EXPECT_GT(owners.at("kv cache"), 0);
  EXPECT_GT(owners.at("weights"), 0);
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
  expect(run("--prompt ''"), 2, "--prompt: empty");
  expect(run("--prompt a '' b"), 2, "--prompt 2: empty");
  expect(run("--prompt x --stop ''"), 2, "--stop: empty");
  expect(run("--prompt x --stop $(printf '\\377')"), 2, "cannot make this text");
  expect(run("--prompt x --repetition-penalty 0"), 2, "repetition-penalty");
  expect(run("--prompt x --prompt-file y"), 2, "found 2");
  expect(run("--prompt-file - -"), 2, "found 2");
  expect(run("--prompt-file no/such/file"), 2, "no/such/file");
  expect(run("--prompt x dist.ranks=2 model.context_parallel_size=2"), 2,
         "model.context_parallel_size: 2");
  expect(run("--prompt x model.num_layers=3"), 2, "does not read model.num_layers");
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
