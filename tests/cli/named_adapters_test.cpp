// Several adapters in one command: --adapter NAME=DIR, and lines that say which.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::test_data;
using testing::AllOf;
using testing::HasSubstr;

class NamedAdapters : public testing::Test {
 protected:
  using Result = test::CommandResult;
  void SetUp() override {
    const std::filesystem::path model = test_data("golden/llama/model");
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(model / file, folder_ / file);
    write_file_atomically(folder_ / "text", "the cat and the hat and the rat");
    const Result trained = test::run_viaduct("tokenizer train --vocab-size 262 --input " + path() +
                                             "/text --output " + path());
    ASSERT_EQ(trained.status, 0) << trained.err;
    write_file_atomically(
        folder_ / "tokenizer_config.json",
        json{{"chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}"}}.dump());
  }
  std::string path() const { return folder_.path().string(); }
  static std::string adapter(const char* name) {
    return (test_data("golden") / name / "adapter").string();
  }
  static std::string named() {
    return " --adapter lora=" + adapter("lora_llama") + " --adapter dora=" + adapter("dora_llama");
  }
  Result run(const std::string& command, const std::string& arguments, const std::string& input) {
    return test::run_viaduct(command + " --model " + path() +
                                 " dist.threads_per_rank=1 --temperature 0 --max-new-tokens 6 " +
                                 arguments,
                             input);
  }
  static std::vector<json> lines(const Result& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<json> all;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) all.push_back(json::parse(line));
    return all;
  }

  test::TemporaryFolder folder_;
};

TEST_F(NamedAdapters, APromptSaysWhich) {
  const std::string input = R"({"prompt": "the cat", "adapter": "dora"})"
                            "\n"
                            R"({"prompt": "the cat"})"
                            "\n"
                            R"({"prompt": "the cat", "adapter": "lora"})"
                            "\n";
  const auto alone = [&](const std::string& with) {
    const std::vector<json> all = lines(run("generate", "--json --prompt 'the cat'" + with, ""));
    return all.empty() ? json() : all.front().at("tokens");
  };
  const json plain = alone(""), lora = alone(" --adapter " + adapter("lora_llama")),
             dora = alone(" --adapter " + adapter("dora_llama"));
  EXPECT_NE(plain, lora);
  for (const char* ranks :
       {"", "dist.ranks=2 model.tensor_model_parallel_size=2 ",
        "dist.ranks=2 model.pipeline_model_parallel_size=2 ", "dist.ranks=2 "}) {
    const std::vector<json> all =
        lines(run("generate", "--json " + std::string(ranks) + named() + " -", input));
    ASSERT_EQ(all.size(), 3u) << ranks;
    EXPECT_EQ(all[0].at("tokens"), dora) << ranks;
    EXPECT_EQ(all[0].at("adapter"), "dora");
    EXPECT_EQ(all[1].at("tokens"), plain) << ranks;
    EXPECT_EQ(all[2].at("tokens"), lora) << ranks;
  }
  // One without a name answers what names none.
  const std::vector<json> all = lines(run("generate",
                                          "--json --adapter " + adapter("lora_llama") +
                                              " --adapter dora=" + adapter("dora_llama") + " -",
                                          input.substr(0, input.rfind('{'))));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("tokens"), dora);
  EXPECT_EQ(all[1].at("tokens"), lora);
  const Result dry = run("generate", "--dry-run " + named() + " -", input);
  EXPECT_EQ(dry.status, 0) << dry.err;
}

TEST_F(NamedAdapters, ChatGoesOnWithAnother) {
  const std::string question = R"({"role": "user", "content": "the cat")";
  const auto first = [&](const std::string& arguments, const std::string& member) {
    const std::vector<json> all = lines(run("chat", arguments, question + member + "}\n"));
    return all.empty() ? json() : all.front().at("content");
  };
  const std::vector<json> all =
      lines(run("chat", named(),
                R"({"messages": [{"role": "user", "content": "the cat"}], "adapter": "lora"})"
                "\n"
                R"({"messages": [{"role": "user", "content": "the cat"}], "adapter": null})"
                "\n"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("content"), first("--adapter " + adapter("lora_llama"), ""));
  EXPECT_EQ(all[0].at("adapter"), "lora");
  EXPECT_EQ(all[1].at("content"), first("", ""));
  const Result wrong = run("chat", named(), question + R"(, "adapter": "loar"})" + "\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.out, HasSubstr("nearest: lora"));
}

TEST_F(NamedAdapters, WrongNamesAreSaid) {
  const Result wrong = run("generate", named() + " -",
                           R"({"prompt": "a", "adapter": "loar"})"
                           "\n");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("standard input line 1: \"adapter\": loar is no adapter"));
  EXPECT_THAT(wrong.err, HasSubstr("nearest: lora"));
  const Result unused = run("generate", named() + " -",
                            R"({"prompt": "a", "adapter": "lora"})"
                            "\n");
  EXPECT_EQ(unused.status, 0) << unused.err;
  EXPECT_THAT(unused.err, HasSubstr("no prompt says \"adapter\": \"dora\""));
}

TEST_F(NamedAdapters, EachIsEvaluated) {
  write_file_atomically(folder_ / "tasks.jsonl",
                        R"({"context": "the", "choices": ["cat", "hat"], "answer": 0})"
                        "\n");
  const std::string texts = "--data " + path() + "/text",
                    tasks = "--tasks " + path() + "/tasks.jsonl";
  const auto eval = [&](const std::string& arguments) {
    return test::run_viaduct("eval --model " + path() + " dist.threads_per_rank=1 " + arguments);
  };
  const auto document = [&](const std::string& arguments) {
    const Result result = eval(arguments + " --json");
    EXPECT_EQ(result.status, 0) << result.err;
    json found = result.status == 0 ? json::parse(result.out) : json();
    found.erase("seconds");
    for (const char* name : {"lora", "dora"})
      if (found.contains("adapters")) found["adapters"][name].erase("seconds");
    return found;
  };
  for (const std::string& what : {texts, tasks + " --rows"}) {
    const json lora = document(what + " --adapter " + adapter("lora_llama")),
               dora = document(what + " --adapter " + adapter("dora_llama"));
    EXPECT_NE(lora, dora);
    EXPECT_EQ(document(what + named()), json({{"adapters", {{"lora", lora}, {"dora", dora}}}}));
  }
  EXPECT_EQ(document(texts + named() + " dist.ranks=2").at("adapters").size(), 2u);
  EXPECT_THAT(eval(texts + named()).out, AllOf(HasSubstr("\nlora "), HasSubstr("\ndora ")));
  EXPECT_THAT(eval(tasks + named()).out, AllOf(HasSubstr("\nlora "), HasSubstr("\ndora ")));
  EXPECT_THAT(eval(texts + named() + " --dry-run").out, HasSubstr("with the adapter dora"));
  const Result two = eval(texts + named() + " --dry-run --json");
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.err, HasSubstr("expected one --adapter"));
}

}  // namespace
}  // namespace viaduct
