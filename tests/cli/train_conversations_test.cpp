// `viaduct train` and `viaduct data samples` on conversations with a mask.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "support/chat_tokenizer.h"
#include "support/command.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TrainConversations : public testing::Test {
 protected:
  TrainConversations()
      : chat(write_conversations(folder / "chat",
                                 conversations_of(random_lengths(50, 5, 30), 500))) {}

  CommandResult train(const std::string& more) const {
    return run_viaduct(
        "train model.family=llama model.num_layers=2 model.hidden_size=32 "
        "model.ffn_hidden_size=64 model.num_attention_heads=4 model.vocab_size=2048 "
        "mixed_precision=fp32 train.global_batch_size=4 train.micro_batch_size=2 "
        "train.train_iters=8 optimizer.lr=1e-2 validation.eval_iters=1 dist.threads_per_rank=1 "
        "logger.log_interval=1 "
        "dataset.split=80,20,0 'dataset.blend=[" +
        chat + "]' " + more);
  }

  TemporaryFolder folder;
  std::string chat;
};

TEST_F(TrainConversations, OneARowSaysWhatIsTrained) {
  const CommandResult run = train("model.seq_length=32");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out + run.err,
              AllOf(HasSubstr("dataset " + chat + ": 40 conversations of"),
                    HasSubstr("in 40 rows of 32 tokens an epoch; padding"), HasSubstr("scored")));
}

TEST_F(TrainConversations, PackedRowsAreFewerAndTheFirstIsShown) {
  const CommandResult run = train("dataset.packed_sequence_size=64 tokenizer.tokenizer_model=" +
                                  test_data("tokenizer/bpe_shakespeare").string() +
                                  " checkpoint.save=" + (folder / "run").string());
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out + run.err,
              AllOf(HasSubstr("rows of 64 tokens an epoch; padding"), Not(HasSubstr("40 rows")),
                    HasSubstr("the first row, what is scored in brackets: "), HasSubstr("[")));
  const std::vector<double> losses = metric(folder / "run" / "metrics.jsonl", "loss");
  ASSERT_EQ(losses.size(), 8u);
  EXPECT_LT(losses.back(), losses.front());
  // On resume the rows must be the same.
  const CommandResult other =
      train("dataset.packed_sequence_size=48 train.train_iters=9 checkpoint.save=" +
            (folder / "run").string());
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("dataset.packed_sequence_size: was 64, is 48: "),
                               HasSubstr("dataset.packed_sequence_size] continues anyway"),
                               Not(HasSubstr("model.seq_length: "))));
  // Rows of one conversation each are other rows too, which is said where they are as long.
  const std::string again = " train.train_iters=9 checkpoint.save=" + (folder / "run").string();
  EXPECT_THAT(train("model.seq_length=48" + again).err,
              HasSubstr("dataset.packed_sequence_size: was 64, is null (rows of 48 tokens, were "
                        "64): "));
  const CommandResult said = train("model.seq_length=64" + again);
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("warning: dataset.packed_sequence_size: was 64, is null: "));
}

TEST_F(TrainConversations, RanksTrainOnPackedRows) {
  for (const char* layout : {"model.tensor_model_parallel_size=2", "model.context_parallel_size=2",
                             "model.pipeline_model_parallel_size=2"}) {
    const CommandResult run =
        train(std::string("dataset.packed_sequence_size=64 dist.ranks=2 ") + layout);
    EXPECT_EQ(run.status, 0) << layout << run.err;
  }
}

TEST_F(TrainConversations, TooLongOnesEndTheRunBeforeItsFirstStep) {
  for (const std::string rows : {"model.seq_length=16", "dataset.packed_sequence_size=16",
                                 "model.seq_length=16 dataset.packing_split=true"}) {
    const CommandResult run = train(rows);
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr("longer than a row of 16 tokens"),
                               HasSubstr("viaduct data chat … --max-length 16")));
    const bool packed = rows.starts_with("dataset");
    EXPECT_THAT(run.err, HasSubstr(packed ? "rows for it (dataset.packed_sequence_size="
                                          : "rows for it (model.seq_length="));
    EXPECT_THAT(run.out + run.err, Not(HasSubstr("memory")));
    // A dry run says the same.
    const CommandResult dry = train(rows + " --dry-run");
    EXPECT_EQ(dry.status, 2);
    EXPECT_EQ(dry.err, run.err);
    const CommandResult ranks = train(rows + " dist.ranks=2");
    EXPECT_EQ(ranks.status, 2);
    EXPECT_EQ(ranks.err, run.err) << "once, not by each rank";
  }
  EXPECT_EQ(train("dataset.packed_sequence_size=16 dataset.packing_split=true --dry-run").status,
            0);
}

TEST_F(TrainConversations, APlanRefusesAndSaysWhatARunDoes) {
  const auto plan = [](const std::string& data) {
    return run_viaduct(
        "plan --cluster cpu model.family=llama model.num_layers=2 model.hidden_size=32 "
        "model.ffn_hidden_size=64 model.num_attention_heads=4 model.vocab_size=2048 "
        "train.global_batch_size=4 train.micro_batch_size=2 train.train_iters=8 " +
        data);
  };
  const CommandResult longer = plan("model.seq_length=16 'dataset.blend=[" + chat + "]'");
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.err, HasSubstr("longer than a row of 16 tokens"));
  auto blank = conversations_of(random_lengths(20, 5, 30), 500);
  for (auto& one : blank) one.mask.assign(one.mask.size(), 0);
  const std::string none = write_conversations(folder / "none", blank);
  const CommandResult unscored =
      plan("model.seq_length=32 'dataset.blend=[0.5," + chat + ",0.5," + none + "]'");
  EXPECT_EQ(unscored.status, 0) << unscored.err;
  EXPECT_THAT(unscored.out, HasSubstr("note: dataset " + none + ": no token of the train split"));
}

TEST_F(TrainConversations, WithoutAScoredTokenAreRefused) {
  auto blank = conversations_of(random_lengths(20, 5, 30), 500);
  for (auto& one : blank) one.mask.assign(one.mask.size(), 0);
  const std::string none = write_conversations(folder / "blank", blank);
  for (const char* more : {" model.seq_length=32", " dataset.packed_sequence_size=64",
                           " model.seq_length=32 --dry-run", " model.seq_length=32 dist.ranks=2"}) {
    const CommandResult run = train("'dataset.blend=[" + none + "]'" + more);
    EXPECT_EQ(run.status, 2) << more;
    EXPECT_THAT(run.err, AllOf(HasSubstr("no token of the train split is scored"),
                               HasSubstr("dataset.answer_only_loss=false")));
  }
  const CommandResult blend =
      train("'dataset.blend=[0.5," + chat + ",0.5," + none + "]' model.seq_length=32");
  EXPECT_EQ(blend.status, 0) << blend.err;
  EXPECT_THAT(blend.err, HasSubstr(none + ": no token of the train split is scored: its rows "
                                          "change nothing"));
}

TEST_F(TrainConversations, StepsWithoutAScoredTokenAreCountedAndSaid) {
  auto some = conversations_of(random_lengths(40, 5, 30), 500);
  for (size_t i = 0; i < some.size(); ++i)
    if (i % 4 != 0) some[i].mask.assign(some[i].mask.size(), 0);
  const std::string prefix = write_conversations(folder / "some", some);
  const CommandResult run = train(
      "'dataset.blend=[" + prefix +
      "]' model.seq_length=32 dataset.split=1,0,0 validation.eval_iters=0 "
      "train.global_batch_size=1 train.micro_batch_size=1 train.train_iters=40 checkpoint.save=" +
      (folder / "run").string());
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(
      run.out + run.err,
      AllOf(HasSubstr("no token of its global batch is scored, so nothing is "
                      "updated; 1 step of this kind so far"),
            HasSubstr("16 steps of this kind so far"), Not(HasSubstr("17 steps of this kind"))));
  EXPECT_GE(metric(folder / "run" / "metrics.jsonl", "nothing_scored").size(), 30u);
}

TEST_F(TrainConversations, TemplatesAndEndsOfTextsThatMisleadAreSaid) {
  const std::string model = (folder / "model").string(), made = (folder / "made").string(),
                    lines = (folder / "lines.jsonl").string(),
                    other = (folder / "other.jinja").string();
  write_chat_model(model, kChatMl);
  write_file_atomically(
      lines,
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]})"
      "\n");
  write_file_atomically(other, "{{ bos_token }}" + std::string(kChatMl));
  const auto run = [&](const std::string& kind, const std::string& more) {
    const CommandResult data = run_viaduct("data " + kind + " --overwrite --input " + lines +
                                           " --tokenizer " + model + " --output " + made);
    EXPECT_EQ(data.status, 0) << data.err;
    const CommandResult trained =
        train("'dataset.blend=[" + made + "]' dataset.split=1,0,0 validation.eval_iters=0 " +
              "train.train_iters=1 model.seq_length=32 tokenizer.tokenizer_model=" + model + more);
    EXPECT_EQ(trained.status, 0) << trained.err;
    return trained.err;
  };
  const auto warns = HasSubstr("its conversations were made with another chat template than that");
  EXPECT_THAT(run("chat", ""), Not(warns));
  EXPECT_THAT(run("chat --template " + other, ""), warns);
  write_file_atomically(lines, R"({"text": "Hi</s>Yo"})"
                               "\n");
  EXPECT_THAT(run("tokenize", " dataset.reset_attention_mask=true"),
              HasSubstr("its documents hold 1 more of it inside"));
}

TEST_F(TrainConversations, SamplesShowRows) {
  const CommandResult run = run_viaduct(
      "data samples 'dataset.blend=[" + chat +
      "]' dataset.split=80,20,0 dataset.packed_sequence_size=64 --split train --num-samples "
      "null,null,null --json --indices");
  ASSERT_EQ(run.status, 0) << run.err;
  const json rows = json::parse(run.out);
  EXPECT_EQ(rows["length"], rows["samples"].size());
  EXPECT_EQ(rows["datasets"][0]["conversation_index"].size(), 40u);
  for (const json& row : rows["samples"]) {
    EXPECT_EQ(row["tokens"].size(), 64u);
    EXPECT_EQ(row["cu_seqlens"].back(), 64);
  }
}

TEST_F(TrainConversations, ADryRunKnowsTheirRows) {
  const CommandResult run = train("dataset.packed_sequence_size=64 --dry-run");
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(TrainConversations, TheDryRunRefusesMetricsThatTheRunWouldNotHave) {
  write_file_atomically(folder / "tasks.jsonl",
                        R"({"context": "a", "continuation": "b", "task": "x"})");
  const std::string tasks =
      "model.seq_length=32 validation.tasks=" + (folder / "tasks.jsonl").string() +
      " tokenizer.tokenizer_model=" + test_data("tokenizer/bpe_shakespeare").string() +
      " --dry-run ";
  const CommandResult named = train(tasks + "checkpoint.keep_best=x/perplexty");
  EXPECT_EQ(named.status, 2);
  EXPECT_THAT(named.err, HasSubstr("nearest: x/perplexity"));
  EXPECT_EQ(train(tasks + "checkpoint.keep_best=x/perplexity").status, 0);
  EXPECT_EQ(train(tasks + "checkpoint.keep_best=validation_loss").status, 0);
  const CommandResult patient =
      train("model.seq_length=32 --dry-run train.early_stopping_patience=2 dataset.split=1,0,0");
  EXPECT_EQ(patient.status, 2);
  EXPECT_THAT(patient.err, HasSubstr("train.early_stopping_patience: expected validation data"));
}

}  // namespace
}  // namespace viaduct
