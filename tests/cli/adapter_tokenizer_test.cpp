// An adapter with a tokenizer and a chat template of its own: whoever uses or merges it takes
// these.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::run_viaduct;
using test::test_data;
using testing::HasSubstr;
using testing::Not;

constexpr int kNewToken = 59;  // <new>, of the adapter's tokenizer

class AdapterTokenizer : public testing::Test {
 protected:
  using Result = test::CommandResult;
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "model");
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(test_data("golden/llama/model") / file, folder_ / "model" / file);
    write_tokenizer("model", {"<e>"}, "base: {{ messages[0].content }}");
    write_file_atomically(folder_ / "model/generation_config.json", R"({"eos_token_id": [58, 3]})");
    write_tokenizer("more", {"<e>", "<new>"}, "N<new>{{ messages[0].content }}");
    std::filesystem::copy(test_data("golden/lora_llama/adapter"), at("peft"));
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(folder_ / "more" / file, folder_ / "peft" / file);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// Characters from 'A' on, and added tokens.
  void write_tokenizer(const std::string& name, const std::vector<std::string>& added,
                       const std::string& chat_template) {
    std::filesystem::create_directories(folder_ / name);
    json vocabulary = json::object(), tokens = json::array();
    for (int i = 0; i < 58; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
    for (size_t i = 0; i < added.size(); ++i)
      tokens.push_back({{"id", 58 + i}, {"content", added[i]}, {"special", true}});
    const json tokenizer{
        {"added_tokens", tokens},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
    write_file_atomically(folder_ / name / "tokenizer.json",
                          test::whole_tokenizer(tokenizer).dump());
    write_file_atomically(folder_ / name / "tokenizer_config.json",
                          json{{"eos_token", "<e>"}, {"chat_template", chat_template}}.dump());
  }
  static Result generate(const std::string& arguments, const std::string& input = "") {
    return run_viaduct(
        "generate dist.threads_per_rank=1 --max-new-tokens 1 --temperature 0 --json " + arguments,
        input);
  }
  static json prompt_tokens(const Result& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? json::parse(result.out).at("prompt_tokens") : json();
  }

  test::TemporaryFolder folder_;
};

TEST_F(AdapterTokenizer, CutsPromptsAndRendersChats) {
  const std::string with = "--model " + at("model") + " --adapter " + at("peft");
  const Result text = generate(with + " --prompt 'A<new>'");
  EXPECT_EQ(prompt_tokens(text), json({0, kNewToken}));
  EXPECT_THAT(text.err, HasSubstr("tokenizer and chat template are those of the adapter"));
  EXPECT_EQ(prompt_tokens(generate(with + " --chat --prompt B")), json({'N' - 'A', kNewToken, 1}));
  // A tokenizer that is named comes first.
  const Result named = generate(with + " --prompt 'A<e>' tokenizer.tokenizer_model=" + at("model"));
  EXPECT_EQ(prompt_tokens(named), json({0, 58}));
  EXPECT_THAT(named.err, Not(HasSubstr("those of the adapter")));
  // The same files are no news.
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(folder_ / "model" / file, folder_ / "peft" / file,
                               std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(generate(with + " --prompt A").err, Not(HasSubstr("those of the adapter")));
}

TEST_F(AdapterTokenizer, OfARunIsUsedAndExported) {
  const Result trained = run_viaduct(
      "train checkpoint.pretrained_checkpoint=" + at("model") +
      " tokenizer.tokenizer_model=" + at("more") +
      " dataset.mock=true model.seq_length=16 train.global_batch_size=1 train.micro_batch_size=1 "
      "train.train_iters=1 scheduler.lr_warmup_iters=0 dist.threads_per_rank=1 "
      "validation.eval_iters=0 peft.scheme=lora peft.dim=2 checkpoint.save=" +
      at("run"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const std::string& with :
       {"--model " + at("run"), "--model " + at("model") + " --adapter " + at("run")})
    EXPECT_EQ(prompt_tokens(generate(with + " --prompt '<new>A'")), json({kNewToken, 0})) << with;
  const Result exported = run_viaduct("convert --from " + at("run") + " --to " + at("exported"));
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(read_file(folder_ / "exported/tokenizer.json"),
            read_file(folder_ / "more/tokenizer.json"));
}

TEST_F(AdapterTokenizer, GoesIntoMergedFolders) {
  write_file_atomically(folder_ / "model/chat_template.jinja", "base");
  const Result merged = run_viaduct("convert --from " + at("model") + " --adapter " + at("peft") +
                                    " --to " + at("merged"));
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_THAT(merged.err, HasSubstr("the tokenizer and chat template of the adapter"));
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_EQ(read_file(folder_ / "merged" / file), read_file(folder_ / "more" / file)) << file;
  // One set of files: the model's template would come first. Generation settings are the model's.
  EXPECT_FALSE(std::filesystem::exists(folder_ / "merged/chat_template.jinja"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "merged/generation_config.json"));
}

TEST_F(AdapterTokenizer, ByNameItMustHaveTheTokensOfTheModel) {
  const std::string with = "--model " + at("model") + " --adapter words=" + at("peft") + " - ";
  const std::string prompt = R"({"prompt": "A", "adapter": "words"})"
                             "\n";
  const Result refused = generate(with, prompt);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("was trained with another tokenizer"));
  // Another template alone is said.
  write_tokenizer("peft", {"<e>"}, "other");
  const Result said = generate(with, prompt);
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("chat template"));
}

TEST_F(AdapterTokenizer, OfAnotherAdapterDoesNotCutForOneThatHasTheModels) {
  const std::string plain = (test_data("golden/lora_llama") / "adapter").string();
  const std::string with =
      "--model " + at("model") + " --adapter " + at("peft") + " --adapter plain=" + plain + " - ";
  const std::string prompt = R"({"prompt": "A", "adapter": "plain"})"
                             "\n";
  const Result refused = generate(with, prompt);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--adapter plain=" + plain));
  EXPECT_THAT(refused.err, HasSubstr("has no tokenizer of its own"));
  // A tokenizer that is named is for all of them.
  const Result named = generate(with + "tokenizer.tokenizer_model=" + at("more"), prompt);
  EXPECT_EQ(named.status, 0) << named.err;
  // The same tokens with another template of their own, or the same files, are no problem.
  write_tokenizer("peft", {"<e>"}, "other");
  EXPECT_EQ(generate(with, prompt).status, 0);
}

TEST_F(AdapterTokenizer, WithMoreTokensThanRowsIsRefused) {
  std::vector<std::string> many;
  for (int i = 0; i < 2000; ++i) many.push_back("<" + std::to_string(i) + ">");
  write_tokenizer("peft", many, "x");
  const std::string adapter = " --adapter " + at("peft");
  const Result used = generate("--model " + at("model") + adapter + " --prompt A");
  EXPECT_EQ(used.status, 2);
  EXPECT_THAT(used.err, HasSubstr("its vocabulary of 2059 is larger than the model's"));
  const Result merged =
      run_viaduct("convert --from " + at("model") + adapter + " --to " + at("merged"));
  EXPECT_EQ(merged.status, 2);
  EXPECT_THAT(merged.err, HasSubstr("the adapter's tokenizer has 2059 tokens"));
}

}  // namespace
}  // namespace viaduct
