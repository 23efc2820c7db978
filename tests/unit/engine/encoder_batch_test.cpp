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

/// Rows of two tokens in the decoder, and of four in the encoder, of which `used` are no padding.
HostBatch pairs(const std::vector<int64_t>& used) {
  HostBatch batch;
  for (size_t row = 0; row < used.size(); ++row) {
    for (int t = 0; t < 4; ++t) {
      batch.ids.push_back(t), batch.positions.push_back(t), batch.targets.push_back(-1);
      batch.loss_weight.push_back(0);
      batch.token_index.push_back(static_cast<int64_t>(4 * row) + t);
    }
    batch.end_document();
    const auto id = static_cast<int32_t>(10 * (row + 1));
    append_encoder_row({id, id + 1, id + 2, id + 3}, used[row], static_cast<int64_t>(row), batch);
  }
  return batch;
}

TEST(EncoderBatchTest, ContextRanksHaveWholeRowsOfTheEncoder) {
  const HostBatch whole = pairs({4, 3, 2, 4});
  const HostBatch first = cut_batch(whole, {.cp = 2}, false),
                  second = cut_batch(whole, {.cp = 2, .cp_rank = 1}, false);
  EXPECT_EQ(first.encoder->ids, (Offsets{10, 11, 12, 13, 20, 21, 22, 23}));
  EXPECT_EQ(first.encoder->document_offsets, (Offsets{0, 4, 4, 7, 8}));
  EXPECT_EQ(second.encoder->ids, (Offsets{30, 31, 32, 33, 40, 41, 42, 43}));
  EXPECT_EQ(second.encoder->document_offsets, (Offsets{0, 2, 4, 8, 8}));
  EXPECT_EQ(second.encoder->token_index, (std::vector<int64_t>{8, 9, -1, -1, 12, 13, 14, 15}));
  for (const HostBatch* cut : {&first, &second}) {
    EXPECT_EQ(cut->encoder_offsets, (Offsets{0, 4, 4, 7, 8, 10, 12, 16, 16}));
    EXPECT_EQ(cut->encoder_document, (Offsets{0, 2, 4, 6}));
    EXPECT_EQ(cut->document_offsets, (Offsets{0, 2, 4, 6, 8}));
  }
}

TEST(EncoderBatchTest, BlankRowsFillUpTheLastContextRank) {
  const HostBatch whole = pairs({3});
  const HostBatch blank = cut_batch(whole, {.cp = 2, .cp_rank = 1}, false);
  EXPECT_EQ(cut_batch(whole, {.cp = 2}, false).encoder->ids, (Offsets{10, 11, 12, 13}));
  EXPECT_EQ(blank.encoder->ids, (Offsets{0, 0, 0, 0}));
  EXPECT_EQ(blank.encoder->token_index, (std::vector<int64_t>{-1, -1, -1, -1}));
  EXPECT_EQ(blank.encoder_offsets, (Offsets{0, 3, 4, 8, 8}));
  const CrossDocuments cross =
      cross_documents(blank.document_offsets, blank.encoder_offsets, blank.encoder_document);
  EXPECT_EQ(cross.q_offsets, (Offsets{0, 2, 2, 2, 2}));
  EXPECT_EQ(cross.kv_offsets, (Offsets{0, 3, 4, 8, 8}));
}

TEST(EncoderBatchTest, RowsOfOtherLengthsAreNotDealt) {
  HostBatch whole = pairs({4, 4});
  whole.encoder_document.push_back(3);
  EXPECT_THAT([&] { cut_batch(whole, {.cp = 2}, false); },
              ThrowsMessage<ShapeError>(HasSubstr("8 tokens of the encoder for 3 rows")));
}

}  // namespace
}  // namespace viaduct
