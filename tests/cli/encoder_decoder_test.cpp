// The commands on a model with an encoder (T5) with random weights.

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/conversations.h"
#include "support/language_model.h"
#include "support/paths.h"

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

TEST_F(EncoderCommands, AMissingDataSetIsSaidToBeMissing) {
  const Result result = run("eval", "--data " + (model_ / "absent").string());
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("there is neither a file of this name nor"));
  write_file_atomically(model_ / "text.txt", "the cat");
  EXPECT_THAT(run("eval", "--data " + (model_ / "text.txt").string()).err,
              HasSubstr("a text, but the model has an encoder"));
}

TEST_F(EncoderCommands, LayoutsAreSearched) {
  const Result result =
      run("plan",
          "--cluster dgx-h100 --ranks 2 --global-batch 4 --seq-length 32 --time-limit 600 "
          "--json --top 100 model.encoder_seq_length=64");
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

TEST_F(EncoderCommands, AdaptersAreTrainedUsedAndMerged) {
  const std::string data = test::write_conversations(
      model_ / "pairs", {{{10, 11, 12, 20, 21}, {0, 0, 0, 1, 1}}, {{13, 14, 22}, {0, 0, 1}}});
  const std::string save = (model_ / "run").string(), folder = (model_ / "peft").string();
  const Result trained = run_viaduct(
      "train checkpoint.pretrained_checkpoint=" + model_.path().string() + " dataset.blend=[" +
      data +
      "] model.encoder_seq_length=8 model.seq_length=8 mixed_precision=fp32 train.train_iters=3 "
      "train.global_batch_size=2 train.micro_batch_size=1 optimizer.lr=3e-2 "
      "scheduler.lr_warmup_iters=0 validation.eval_iters=0 dist.threads_per_rank=1 "
      "peft.scheme=lora peft.dim=2 'peft.target_modules=[q,wo]' checkpoint.save=" +
      save);
  ASSERT_EQ(trained.status, 0) << trained.err;
  ASSERT_EQ(run_viaduct("convert --from " + save + " --to " + folder).status, 0);
  const json config = json::parse(read_file(folder + "/adapter_config.json"));
  EXPECT_EQ(config.at("task_type"), "SEQ_2_SEQ_LM");
  EXPECT_EQ(config.at("target_modules"), json({"q", "wo"}));
  const std::string merged = (model_ / "merged").string();
  ASSERT_EQ(run_viaduct("convert --from " + model_.path().string() + " --adapter " + folder +
                        " --to " + merged)
                .status,
            0);
  const auto loss = [](const Result& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out).at("loss").get<double>();
  };
  const std::string pairs = " --json --data " + data + " dist.threads_per_rank=1";
  const double base = loss(run("eval", pairs)),
               adapted = loss(run("eval", "--adapter " + folder + pairs));
  EXPECT_GT(base - adapted, 1e-3);
  EXPECT_NEAR(loss(run_viaduct("eval --model " + merged + pairs)), adapted, 1e-5);
  const std::string prompt = "--prompt 'the cat'" + std::string(kOnce);
  EXPECT_EQ(run("generate", "--adapter " + folder + " " + prompt).out,
            run_viaduct("generate --model " + merged + " " + prompt).out);
}

TEST_F(EncoderCommands, ConversationsAreRefusedByName) {
  for (const char* command : {"chat", "generate --chat --prompt x"}) {
    const Result result = run(command, "");
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("models with an encoder (family t5)"), Not(HasSubstr("template"))));
  }
}

TEST(TowerCommands, OneStageOfATowerHasItsTensorRanks) {
  const test::CommandResult result = run_viaduct(
      "train --dry-run checkpoint.pretrained_checkpoint=" +
      test::test_data("golden/llava_clip/model").string() +
      " model.seq_length=16 dataset.mock=true train.train_iters=2 train.global_batch_size=2 "
      "train.micro_batch_size=1 validation.eval_iters=0 dist.ranks=3 "
      "model.encoder_pipeline_model_parallel_size=1 model.encoder_tensor_model_parallel_size=2");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("pp 2 of which 1 has tp 2"));
}

}  // namespace
}  // namespace viaduct
