#include "engine/sample_batch.h"

#include <gtest/gtest.h>

#include "data/mock_dataset.h"

namespace viaduct {
namespace {

TEST(SampleBatch, KeepsDocumentsTargetsAndGlobalTokenNumbers) {
  Sample row;
  row.tokens = {5, 9, 6, 7};
  row.labels = {9, 6, 7, 8};
  fill_masks_and_positions({4, true, true, true, 9}, row);
  HostBatch batch;
  append_row(row, 10, batch);
  append_row(row, 3, batch);
  EXPECT_EQ(batch.ids, (std::vector<int32_t>{5, 9, 6, 7, 5, 9, 6, 7}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{9, -1, 7, 8, 9, -1, 7, 8}));
  EXPECT_EQ(batch.loss_weight, (std::vector<float>{1, 0, 1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(batch.token_index, (std::vector<int64_t>{40, 41, 42, 43, 12, 13, 14, 15}));
  EXPECT_EQ(batch.document_offsets, (std::vector<int32_t>{0, 2, 4, 6, 8}));
}

TEST(SampleBatch, RowsEndDocumentsWhereNothingElseDoes) {
  const MockDataset source(100, 50, 1, {8});
  const Sampler sampler(source.size());
  const HostBatch batch = read_batch(source, sampler.rows(96, 3));
  EXPECT_EQ(batch.document_offsets, (std::vector<int32_t>{0, 8, 16, 24}));
  EXPECT_EQ(batch.token_index.front(), 96 * 8);
  EXPECT_EQ(batch.token_index.back(), 99 * 8 - 1);
  EXPECT_EQ(batch.scored_weight(), 24);
  EXPECT_EQ(std::vector<int32_t>(batch.ids.begin() + 8, batch.ids.begin() + 16),
            source.get(97).tokens);
}

// Another micro-batch size gives the same tokens with the same global numbers.
TEST(SampleBatch, GlobalTokenNumbersDoNotDependOnTheCut) {
  const MockDataset source(1000, 50, 1, {8});
  const Sampler sampler(source.size());
  const HostBatch whole = read_batch(source, sampler.rows(12, 12));
  std::vector<int64_t> numbers;
  std::vector<int32_t> ids;
  for (int64_t m = 0; m < 3; ++m) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const HostBatch part = read_batch(source, micro_batch_rows(sampler, 12, m, {2, 2, rank}));
      numbers.insert(numbers.end(), part.token_index.begin(), part.token_index.end());
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    }
  }
  EXPECT_EQ(numbers, whole.token_index);
  EXPECT_EQ(ids, whole.ids);
}

}  // namespace
}  // namespace viaduct
