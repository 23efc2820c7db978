// Training of a model with an encoder: on pairs it learns what the input says, a resumed run has
// the bits of one that was not stopped, and memory is what was planned.

#include <gtest/gtest.h>

#include "data/indexed_dataset_writer.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::MaskedTokens;
using test::Overrides;
using test::operator+;
using test::tiny_run;
using test::train_run;

/// Each answer repeats its input, of other lengths.
std::vector<MaskedTokens> echoes() {
  std::vector<MaskedTokens> pairs;
  for (int32_t i = 0; i < 40; ++i) {
    MaskedTokens pair;
    const int32_t length = 2 + i % 3;
    for (const int32_t scored : {0, 1}) {
      for (int32_t t = 0; t < length; ++t) {
        pair.tokens.push_back(2 + (i * 7 + t * 5) % 20);
        pair.mask.push_back(scored);
      }
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Overrides small_t5() {
  return tiny_run("t5") +
         Overrides{"model.vocab_size=24", "model.encoder_seq_length=6", "model.seq_length=5"};
}

TEST(EncoderDecoderTraining, LearnsFromPairs) {
  const test::TemporaryFolder folder;
  const std::string prefix = test::write_conversations(folder / "pairs", echoes());
  const Overrides run = small_t5() + Overrides{"dataset.mock=false",
                                               "dataset.blend=[" + prefix + "]",
                                               "dataset.split=1,0,0",
                                               "train.train_iters=200",
                                               "optimizer.lr=3e-3",
                                               "train.global_batch_size=8",
                                               "checkpoint.save=" + (folder / "run").string()};
  train_run(run);
  const std::vector<double> losses = test::metric(folder / "run" / "metrics.jsonl", "loss");
  ASSERT_EQ(losses.size(), 200u);
  EXPECT_LT(losses.back(), 0.7 * losses.front());
}

TEST(EncoderDecoderTraining, AResumedRunHasTheSameBits) {
  const test::TemporaryFolder folder;
  const Overrides whole =
      small_t5() + Overrides{"train.train_iters=6", "scheduler.lr_decay_iters=6"};
  const test::RunOutcome expected = train_run(whole);
  const std::string save = "checkpoint.save=" + (folder / "run").string();
  train_run(small_t5() + Overrides{"train.train_iters=3", "scheduler.lr_decay_iters=6", save});
  const test::RunOutcome resumed =
      train_run(whole + Overrides{save, "checkpoint.load=" + (folder / "run").string()});
  EXPECT_EQ(resumed.tensors, expected.tensors);
}

/// Which spans a row leaves out does not depend on what was read before.
TEST(EncoderDecoderTraining, AResumedRunOnTextsHasTheSameBits) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "text", TokenType::uint16);
  for (int32_t document = 0; document < 40; ++document) {
    std::vector<int32_t> ids;
    for (int32_t t = 0; t < 25; ++t) ids.push_back(2 + (document * 7 + t * 3) % 40);
    writer.add_document(ids);
  }
  writer.finish();
  const Overrides texts =
      tiny_run("t5") +
      Overrides{"model.encoder_seq_length=16", "model.seq_length=8",
                "tokenizer.vocab_size=50",     "tokenizer.vocab_extra_ids=8",
                "dataset.mock=false",          "dataset.blend=[" + (folder / "text").string() + "]",
                "dataset.split=1,0,0",         "dataset.short_sequence_probability=0.3",
                "scheduler.lr_decay_iters=6"};
  const Overrides whole = texts + Overrides{"train.train_iters=6"};
  const test::RunOutcome expected = train_run(whole);
  const std::string save = "checkpoint.save=" + (folder / "run").string();
  train_run(texts + Overrides{"train.train_iters=3", save});
  const test::RunOutcome resumed =
      train_run(whole + Overrides{save, "checkpoint.load=" + (folder / "run").string()});
  EXPECT_EQ(resumed.tensors, expected.tensors);
}

}  // namespace
}  // namespace viaduct
