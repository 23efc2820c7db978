// The commands on a model with an encoder (T5) with random weights.

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/conversations.h"
#include "support/language_model.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::run_viaduct;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EncoderCommands : public testing::Test {
 protected:
  using Result = test::CommandResult;
  Result run(const std::string& command, const std::string& arguments) const {
    return run_viaduct(command + " --model " + model_.path().string() + " " + arguments);
  }
  static constexpr const char* kOnce =
      " --temperature 0 --max-new-tokens 6 dist.threads_per_rank=1";

  test::LanguageModel model_{"t5"};
};

TEST_F(EncoderCommands, AnAnswerStandsWithoutItsPrompt) {
  const Result one = run("generate", "--json --prompt 'the cat'" + std::string(kOnce));
  ASSERT_EQ(one.status, 0) << one.err;
  const json document = json::parse(one.out);
  EXPECT_EQ(document.at("prompt"), "the cat");
  EXPECT_EQ(document.at("prompt_tokens").back(), 1);  // the end of the input
  EXPECT_GT(document.at("prompt_tokens").size(), 2u);
  EXPECT_EQ(run("generate", "--prompt 'the cat'" + std::string(kOnce)).out,
            document.at("text").get<std::string>() + "\n");
  // In a batch with a longer one.
  write_file_atomically(model_ / "prompts.txt", "the cat\nthe cat and the hat and the rat\n");
  const Result both =
      run("generate", "--json --prompt-file " + (model_ / "prompts.txt").string() + kOnce);
  ASSERT_EQ(both.status, 0) << both.err;
  EXPECT_EQ(json::parse(both.out.substr(0, both.out.find('\n'))).at("tokens"),
            document.at("tokens"));
}

TEST_F(EncoderCommands, MemoryOfAGenerationIsKnownBefore) {
  const Result result = run("generate", "--dry-run --json --prompt 'the cat'" + std::string(kOnce));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"kv cache\": 24596"));
}

TEST_F(EncoderCommands, PairsAreEvaluated) {
  const std::string data =
      test::write_conversations(model_ / "pairs", {{{10, 11, 12, 20, 21}, {0, 0, 0, 1, 1}}});
  const Result result = run("eval", "--json --data " + data + " dist.threads_per_rank=1");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("tokens"), 3);  // with the end token
  EXPECT_EQ(json::parse(result.out).at("conversations"), 1);
  EXPECT_EQ(run("eval", "--dry-run --data " + data).status, 0);
}

TEST_F(EncoderCommands, LayoutsAreSearched) {
  const Result result =
      run("plan",
          "--cluster dgx-h100 --ranks 2 --global-batch 4 --seq-length 32 --time-limit 600 "
          "--json --top 20 model.encoder_seq_length=64");
  ASSERT_EQ(result.status, 0) << result.err;
  const json candidates = json::parse(result.out).at("candidates");
  ASSERT_FALSE(candidates.empty());
  bool cut = false;
  for (const json& one : candidates) {
    EXPECT_LE(one["lower_bound"]["step_seconds"], one["predicted"]["step_seconds"]);
    cut = cut || one["tensor_model_parallel_size"] == 2;
  }
  EXPECT_TRUE(cut);
}

TEST_F(EncoderCommands, ConversationsAreRefusedByName) {
  for (const char* command : {"chat", "generate --chat --prompt x"}) {
    const Result result = run(command, "");
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("models with an encoder (family t5)"), Not(HasSubstr("template"))));
  }
}

}  // namespace
}  // namespace viaduct
