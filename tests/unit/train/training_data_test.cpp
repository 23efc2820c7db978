// The rows read by training.

#include "train/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

class TrainingRows : public testing::Test {
 protected:
  TrainingRows() {
    IndexedDatasetWriter writer(folder / "d", TokenType::uint16);
    for (int32_t d = 0; d < 50; ++d) {
      std::vector<int32_t> document;
      for (int32_t i = 0; i < 30; ++i) document.push_back((7 * d + i * i) % 61);
      writer.add_document(document);
    }
    writer.finish();
  }
  Overrides run(const Overrides& more) const {
    return tiny_run() +
           Overrides{"dataset.mock=false", "dataset.blend=[" + (folder / "d").string() + "]",
                     "dataset.split=1,0,0", "train.train_iters=5"} +
           more;
  }
  /// The rows of the global batch that begins at `consumed`, ordered by ordinal.
  std::vector<std::vector<int32_t>> batch(const RunSetup& setup, int64_t consumed, int dp) {
    const auto length = static_cast<size_t>(setup.config.model.seq_length.value());
    std::map<int64_t, std::vector<int32_t>> rows;
    for (int rank = 0; rank < dp; ++rank) {
      const TrainingData data(setup, pool, dp, rank);
      const int64_t count = data.micro_batches(setup.config.train.global_batch_size);
      for (int64_t m = 0; m < count; ++m) {
        const HostBatch part = data.train(consumed, m);
        for (size_t at = 0; at < part.ids.size(); at += length) {
          const auto begin = part.ids.begin() + static_cast<int64_t>(at);
          rows[part.token_index[at]].assign(begin, begin + static_cast<int64_t>(length));
        }
      }
    }
    std::vector<std::vector<int32_t>> all;
    for (const auto& [token, row] : rows) all.push_back(row);
    return all;
  }

  TemporaryFolder folder;
  ThreadPool pool{1};
};

TEST_F(TrainingRows, ComeInTheOrderThatIsAskedFor) {
  DatasetBuilder builder(setup_of(run({})).config.dataset);
  const auto source = builder.build(Split::train, 20);
  const auto numbered = [&](std::vector<int64_t> numbers) {
    std::vector<std::vector<int32_t>> rows;
    for (size_t i = 0; i < 4; ++i) rows.push_back(source->get(numbers[i]).tokens);
    return rows;
  };
  EXPECT_EQ(batch(setup_of(run({})), 0, 1), numbered({0, 1, 2, 3}));
  EXPECT_EQ(batch(setup_of(run({"dataset.dataloader_type=cyclic"})), 0, 1),
            numbered(torch_permutation(source->size(), 0)));
  EXPECT_EQ(
      batch(setup_of(run({"dataset.dataloader_type=batch", "dataset.random_seed=1234"})), 0, 1),
      numbered(torch_permutation(source->size(), 1234)));
}

TEST_F(TrainingRows, AreTheSameInEveryLayoutAndBeyondAnEpoch) {
  for (const char* type : {"single", "cyclic", "batch"}) {
    SCOPED_TRACE(type);
    const std::string order = std::string("dataset.dataloader_type=") + type;
    for (const int64_t consumed : {0, 16}) {
      const auto rows = batch(setup_of(run({order})), consumed, 1);
      EXPECT_EQ(rows.size(), 4u);
      EXPECT_EQ(batch(setup_of(run({order, "train.micro_batch_size=1"})), consumed, 4), rows);
    }
  }
  const RunSetup cyclic = setup_of(run({"dataset.dataloader_type=cyclic"}));
  EXPECT_EQ(batch(cyclic, 4000, 1).size(), 4u);  // in another pass over the rows
  EXPECT_NE(batch(cyclic, 4000, 1), batch(cyclic, 0, 1));
  EXPECT_THROW(batch(setup_of(run({})), 4000, 1), ConfigError);
}

TEST_F(TrainingRows, SetsAreThereForWhatHasData) {
  const auto sets = [&](const Overrides& more) {
    const RunSetup setup = setup_of(run(Overrides{"validation.eval_iters=2"} + more));
    const TrainingData data(setup, pool);
    return std::pair(data.validation_sets().size(), data.test_set().has_value());
  };
  using Found = std::pair<size_t, bool>;
  EXPECT_EQ(sets({"dataset.split='80,10,10'"}), Found(1, true));
  EXPECT_EQ(sets({"dataset.split='80,10,10'", "validation.eval_iters=0"}), Found(0, false));
  EXPECT_EQ(sets({"dataset.split='90,10,0'"}), Found(1, false));
  EXPECT_EQ(sets({"dataset.split='90,10,0.001'"}), Found(1, false));  // less than one document
  EXPECT_EQ(sets({"dataset.mock=true", "dataset.blend=null"}), Found(1, false));
}

// An external loader is impossible: there is no Python program.
TEST_F(TrainingRows, ExternalLoadersAreRefused) {
  try {
    setup_of(run({"dataset.dataloader_type=external"}));
    FAIL();
  } catch (const ConfigError& error) {
    ASSERT_EQ(error.problems().size(), 1u);
    EXPECT_THAT(error.problems()[0],
                testing::AllOf(testing::HasSubstr("no program stands above this one"),
                               testing::HasSubstr("dataset.blend")));
  }
}

// The note that rows are already padded to sequence_length is true.
TEST_F(TrainingRows, EveryRowHasSequenceLengthTokens) {
  const RunSetup setup = setup_of(run({"dataset.pad_to_max_length=true"}));
  EXPECT_THAT(setup.notes,
              testing::Contains(testing::AllOf(testing::HasSubstr("dataset.pad_to_max_length"),
                                               testing::HasSubstr("no effect"),
                                               testing::HasSubstr("sequence_length tokens"))));
  const TrainingData data(setup, pool, 1, 0);
  EXPECT_EQ(data.train(0, 0).tokens(),
            setup.config.train.micro_batch_rows() * setup.config.model.seq_length.value());
}

TEST_F(TrainingRows, FillInTheMiddleNeedsATokenizer) {
  EXPECT_THROW(setup_of(run({"dataset.fim_rate=0.5"})), ConfigError);  // without a tokenizer
}

}  // namespace
}  // namespace viaduct
