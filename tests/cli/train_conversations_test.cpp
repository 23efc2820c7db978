// `viaduct train` and `viaduct data samples` on conversations with a mask.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
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
  EXPECT_THAT(other.err, HasSubstr("model.seq_length"));
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
  for (const char* rows : {"model.seq_length=16", "dataset.packed_sequence_size=16"}) {
    const CommandResult run = train(rows);
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr("longer than a row of 16 tokens"),
                               HasSubstr("viaduct data chat … --max-length 16")));
    EXPECT_THAT(run.out, Not(HasSubstr("loss")));
  }
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

}  // namespace
}  // namespace viaduct
