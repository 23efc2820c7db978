// Where everything is there once (a rank, a layer, a row, a step, a document, a token) no command
// calls it many.

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/output_file.h"
#include "support/chat_tokenizer.h"
#include "support/command.h"
#include "support/english.h"
#include "support/language_model.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

class OneOfEach : public testing::Test {
 protected:
  /// Runs `viaduct ARGUMENTS`, which ends with `status`, and reads all that it says.
  void check(const std::string& arguments, int status = 0) const {
    const CommandResult result = run_viaduct(arguments);
    EXPECT_EQ(result.status, status) << arguments << "\n" << result.err;
    EXPECT_EQ(one_called_many(result.out), "") << arguments;
    EXPECT_EQ(one_called_many(result.err), "") << arguments;
  }
  std::string path(const char* name) const { return (model_ / name).string(); }
  /// A run of one of everything, in words.
  static std::string one_step(const std::string& command) {
    std::string text = command;
    for (const std::string& word : tiny_run()) text += " '" + word + "'";
    return text +
           " model.num_layers=1 train.train_iters=1 train.global_batch_size=1 "
           "train.micro_batch_size=1 dist.threads_per_rank=1 logger.log_interval=1 ";
  }

  const LanguageModel model_;
};

TEST_F(OneOfEach, Runs) {
  const std::string train = one_step("train"), save = "checkpoint.save=" + path("run");
  check(train + "--dry-run --full");
  check(train + save + " validation.eval_iters=1");
  check(train + save + " train.train_iters=2 validation.eval_iters=1");
  check("report " + path("run"));
  EXPECT_EQ(one_called_many(read_file(model_ / "run/report.html")), "");
  check("convert --from " + path("run") + " --to " + path("hf"));
  check(train + "dist.ranks=2", 2);
  check(train + "dist.ranks=2 model.pipeline_model_parallel_size=2", 2);
  check(train + "model.num_attention_heads=3", 2);
  check(train + "scheduler.lr_warmup_iters=1", 2);
  check("schedule --pp 1 --microbatches 1");
}

TEST_F(OneOfEach, PlansAndVirtualTime) {
  const std::string plan = one_step("plan --cluster dgx-h100");
  check(plan + "dist.ranks=1");
  check(one_step("train") + "dist.device=sim dist.cluster=dgx-h100");
}

TEST_F(OneOfEach, TextsAndAnswers) {
  write_file_atomically(model_ / "text", "the cat");
  write_file_atomically(model_ / "task.jsonl",
                        "{\"context\": \"the\", \"choices\": [\"cat\", \"hat\"], \"answer\": 0}\n");
  const std::string tokenizer = " --tokenizer " + model_.path().string(),
                    model = " --model " + model_.path().string() + " dist.threads_per_rank=1 ";
  check("data tokenize --input " + path("text") + tokenizer + " --output " + path("data") +
        " --no-append-eod");
  check("data inspect " + path("data"));
  check("eval" + model + "--sequence-length 8 --data " + path("text"));
  check("eval" + model + "--tasks " + path("task.jsonl"));
  check("generate" + model + "--prompt a --max-new-tokens 1");
  check(one_step("train") +
        "dataset.mock=false model.vocab_size=300 model.seq_length=2 "
        "dataset.split=1,0,0 'dataset.blend=[" +
        path("data") + "]'");
}

TEST_F(OneOfEach, Conversations) {
  write_chat_model(model_ / "chat", kChatMl);
  write_file_atomically(
      model_ / "chats.jsonl",
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]})"
      "\n");
  const std::string chat = "data chat --input " + path("chats.jsonl") + " --tokenizer " +
                           path("chat") + " --output " + path("chats") + " ";
  check(chat);
  check(chat + "--overwrite --max-length 4", 1);
  check(chat + "--overwrite --max-length 4 --overlong drop", 1);
  check("data inspect " + path("chats"));
}

}  // namespace
}  // namespace viaduct
