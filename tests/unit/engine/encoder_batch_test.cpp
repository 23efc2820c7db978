// Which documents of an encoder the documents of a decoder attend to.

#include "engine/encoder_batch.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/cut_batch.h"

namespace viaduct {
namespace {

using Offsets = std::vector<int32_t>;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(EncoderBatchTest, PairsDocumentsInOrder) {
  const CrossDocuments cross = cross_documents({0, 3, 5}, {0, 4, 11}, {0, 1});
  EXPECT_EQ(cross.q_offsets, (Offsets{0, 3, 5}));
  EXPECT_EQ(cross.kv_offsets, (Offsets{0, 4, 11}));
  EXPECT_EQ(cross.max_queries, 3);
  EXPECT_EQ(cross.max_keys, 7);
  EXPECT_EQ(cross.pairs, 3 * 4 + 2 * 7);
}

TEST(EncoderBatchTest, PaddingOfTheEncoderHasNoQueries) {
  // A row of 4 and 2 tokens of padding, then one that begins with padding.
  const CrossDocuments cross = cross_documents({0, 3, 5}, {0, 4, 6, 7, 12}, {0, 3});
  EXPECT_EQ(cross.q_offsets, (Offsets{0, 3, 3, 3, 5}));
  EXPECT_EQ(cross.kv_offsets, (Offsets{0, 4, 6, 7, 12}));
  EXPECT_EQ(cross.max_keys, 5);
  EXPECT_EQ(cross.pairs, 3 * 4 + 2 * 5);
}

TEST(EncoderBatchTest, DocumentsWithoutInputSeeNothing) {
  const CrossDocuments cross = cross_documents({0, 3, 5, 9}, {0, 4, 6}, {-1, 0, -1});
  EXPECT_EQ(cross.q_offsets, (Offsets{0, 3, 5, 9, 9}));
  EXPECT_EQ(cross.kv_offsets, (Offsets{0, 0, 4, 4, 6}));
  EXPECT_EQ(cross.pairs, 2 * 4);
}

TEST(EncoderBatchTest, RefusesDocumentsThatAreNotThereOrNotInOrder) {
  EXPECT_THAT(
      [] {
        cross_documents({0, 3}, {0, 4}, {1});
      },
      ThrowsMessage<ShapeError>(HasSubstr("the encoder's document 1, expected 0 to 0")));
  EXPECT_THAT(
      [] {
        cross_documents({0, 3, 5}, {0, 4, 6}, {1, 0});
      },
      ThrowsMessage<ShapeError>(HasSubstr("expected 2 to 1")));
  EXPECT_THROW(cross_documents({0, 3, 5}, {0, 4, 6}, {0}), ShapeError);
}

TEST(EncoderBatchTest, RowsOfAnEncoderAreNotCut) {
  HostBatch batch;
  for (int i = 0; i < 8; ++i) {
    batch.ids.push_back(i), batch.positions.push_back(i), batch.targets.push_back(-1);
    batch.loss_weight.push_back(0), batch.token_index.push_back(i);
  }
  batch.end_document();
  batch.encoder = std::make_shared<HostBatch>(batch);
  batch.encoder_document = {0};
  EXPECT_EQ(cut_batch(batch, {}, true).encoder, batch.encoder);
  EXPECT_THAT([&] { cut_batch(batch, {.cp = 2}, true); },
              ThrowsMessage<ShapeError>(HasSubstr("not cut over 2 context ranks")));
}

}  // namespace
}  // namespace viaduct
