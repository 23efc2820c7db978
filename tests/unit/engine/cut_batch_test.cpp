// The cut of a micro-batch over context ranks: every token once, in zigzag order, with its labels.

#include "engine/cut_batch.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "engine/shift_tokens.h"
#include "nn/context_parallel/layout.h"

namespace viaduct {
namespace {

HostBatch batch_of(const std::vector<int>& lengths) {
  HostBatch batch;
  int token = 0;
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i, ++token) {
      batch.ids.push_back(token % 50);
      batch.positions.push_back(i);
      // The last token of a document is scored too; padding after it is not.
      batch.targets.push_back((token + 1) % 50);
      batch.loss_weight.push_back(0.5f + static_cast<float>(token));
      batch.token_index.push_back(1000 + token);
    }
    batch.end_document();
  }
  return batch;
}

BatchPlace place_of(int cp, int rank, int tp = 1) {
  BatchPlace place;
  place.cp = cp, place.cp_rank = rank, place.stream_parts = tp;
  return place;
}

TEST(CutBatch, RanksHaveTwoChunksZigzag) {
  const HostBatch whole = batch_of({8, 4});
  const auto ids = [&](int rank) { return cut_batch(whole, place_of(2, rank), false).ids; };
  EXPECT_EQ(ids(0), (std::vector<int32_t>{0, 1, 6, 7, 8, 11}));
  EXPECT_EQ(ids(1), (std::vector<int32_t>{2, 3, 4, 5, 9, 10}));
  const HostBatch one = cut_batch(whole, place_of(2, 1), false);
  EXPECT_EQ(one.document_offsets, (std::vector<int32_t>{0, 4, 6}));
  EXPECT_EQ(one.positions, (std::vector<int32_t>{2, 3, 4, 5, 1, 2}));
  EXPECT_EQ(one.targets, (std::vector<int32_t>{3, 4, 5, 6, 10, 11}));
  EXPECT_EQ(one.whole_token_index, whole.token_index);
}

TEST(CutBatch, PaddingHasNoLabelAndNoCount) {
  const HostBatch whole = batch_of({5});
  const HostBatch last = cut_batch(whole, place_of(2, 0), true);  // chunks 0 and 3 of 8 places
  EXPECT_EQ(last.ids, (std::vector<int32_t>{0, 1, 4, 4}));
  EXPECT_EQ(last.positions, (std::vector<int32_t>{0, 1, 4, 4}));
  EXPECT_EQ(last.targets, (std::vector<int32_t>{1, 2, -1, -1}));
  EXPECT_EQ(last.token_index, (std::vector<int64_t>{1000, 1001, -1, -1}));
  EXPECT_EQ(last.loss_weight[3], 0);
  EXPECT_EQ(cut_sources(whole.document_offsets, place_of(2, 0), true),
            (std::vector<int64_t>{0, 1, -1, -1}));
}

TEST(CutBatch, EachRankKnowsThatThereIsPadding) {
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(cut_batch(batch_of({5}), place_of(2, rank), true).has_padding()) << rank;
    EXPECT_FALSE(cut_batch(batch_of({8, 4}), place_of(2, rank), true).has_padding()) << rank;
  }
  EXPECT_TRUE(cut_batch(batch_of({5}), place_of(1, 0, 2), true).has_padding());
  EXPECT_FALSE(cut_batch(batch_of({5}), place_of(1, 0), true).has_padding());
}

TEST(CutBatch, OneRankIsTheIdentity) {
  const HostBatch whole = batch_of({5, 1, 9});
  const HostBatch cut = cut_batch(whole, {}, false);
  EXPECT_EQ(cut.ids, whole.ids);
  EXPECT_EQ(cut.document_offsets, whole.document_offsets);
  EXPECT_TRUE(cut.whole_token_index.empty());
  std::vector<int64_t> all(15);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  EXPECT_EQ(cut_sources(whole.document_offsets, {}, false), all);
}

// Any documents of any sizes: each token on one rank with its own fields, documents in order and in
// two halves, a number of tokens divisible by tp, weights that add up.
TEST(CutBatch, EveryTokenIsOnOneRank) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int> lengths(1 + random() % 5);
    for (int& length : lengths) length = static_cast<int>(1 + random() % 23);
    const int cp = static_cast<int>(1 + random() % 5), tp = static_cast<int>(1 + random() % 4);
    const HostBatch whole = batch_of(lengths);
    std::vector<int> seen(whole.ids.size());
    double weight = 0;
    for (int rank = 0; rank < cp; ++rank) {
      SCOPED_TRACE(testing::Message() << "cp " << cp << " tp " << tp << " rank " << rank);
      const BatchPlace place = place_of(cp, rank, tp);
      const HostBatch cut = cut_batch(whole, place, true);
      const auto sources = cut_sources(whole.document_offsets, place, true);
      ASSERT_EQ(cut.ids.size(), sources.size());
      ASSERT_EQ(cut.tokens(), cut.document_offsets.back());
      ASSERT_EQ(cut.document_offsets.size(), whole.document_offsets.size());
      EXPECT_EQ(cut.tokens() % tp, 0);
      weight += cut.scored_weight();
      for (size_t d = 0; d < lengths.size(); ++d) {
        const int begin = cut.document_offsets[d], end = cut.document_offsets[d + 1];
        if (cp > 1) {
          EXPECT_EQ((end - begin) % 2, 0);
        }
        int64_t before = -1;
        for (int i = begin; i < end; ++i) {
          const auto at = static_cast<size_t>(i);
          if (sources[at] < 0) {
            EXPECT_EQ(cut.targets[at], -1);
            EXPECT_EQ(cut.loss_weight[at], 0);
            EXPECT_EQ(cut.token_index[at], -1);
            continue;
          }
          const auto source = static_cast<size_t>(sources[at]);
          EXPECT_GT(sources[at], before);
          before = sources[at];
          EXPECT_GE(sources[at], whole.document_offsets[d]);
          EXPECT_LT(sources[at], whole.document_offsets[d + 1]);
          ++seen[source];
          EXPECT_EQ(cut.ids[at], whole.ids[source]);
          EXPECT_EQ(cut.positions[at], whole.positions[source]);
          EXPECT_EQ(cut.targets[at], whole.targets[source]);
          EXPECT_EQ(cut.token_index[at], whole.token_index[source]);
        }
      }
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    EXPECT_DOUBLE_EQ(weight, whole.scored_weight());
  }
}

TEST(CutBatch, ARanksPartsHaveAMultipleOfTheTokensThatAreRotatedTogether) {
  for (const auto& [cp, tp] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 2}}) {
    const HostBatch whole = batch_of({17, 1, 30});
    double weight = 0;
    for (int rank = 0; rank < cp; ++rank) {
      BatchPlace place = place_of(cp, rank, tp);
      place.tokens_together = 16;
      const HostBatch cut = cut_batch(whole, place, true);
      EXPECT_EQ(cut.tokens() % (16 * tp), 0) << "cp " << cp << " tp " << tp;
      weight += cut.scored_weight();
    }
    EXPECT_DOUBLE_EQ(weight, whole.scored_weight());
  }
  // What a rank without documents computes: one token of padding.
  BatchPlace alone = place_of(1, 0);
  alone.tokens_together = 16;
  EXPECT_EQ(cut_batch(batch_of({1}), alone, true).tokens(), 16);
}

TEST(CutBatch, UnpackedRowsHaveToDivide) {
  try {
    cut_batch(batch_of({10}), place_of(2, 0), false);
    FAIL();
  } catch (const ShapeError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("10"), std::string::npos);
    EXPECT_NE(text.find("for example 12"), std::string::npos) << text;
  }
  EXPECT_THROW(cut_batch(batch_of({8}), place_of(2, 0, 3), false), ShapeError);
}

TEST(CutBatch, UploadGivesTheStreamRowsOfATensorRank) {
  const auto device = make_cpu_device(1);
  BatchPlace place = place_of(2, 1, 2);
  place.stream_part = 1;
  const HostBatch cut = cut_batch(batch_of({8}), place, false);
  const Batch batch = upload(*device, cut, 50, 8, place);
  EXPECT_EQ(batch.stream_begin, 2);
  EXPECT_EQ(batch.stream_tokens, 2);
  EXPECT_TRUE(batch.context != nullptr);
  EXPECT_THROW(upload(*device, batch_of({8}), 50, 8, place), ShapeError);  // not cut
}

TEST(CutBatch, ChunksOfAttentionBeginAnewInEachDocument) {
  const auto device = make_cpu_device(1);
  const auto chunks_of = [&](const HostBatch& whole, BatchPlace place) {
    place.attention_chunk = 3;
    return upload(*device, cut_batch(whole, place, true), 50, 16, place).chunks;
  };
  const auto offsets = [](const AttentionChunks& chunks) {
    const int32_t* values = chunks.offsets.data<int32_t>();
    return std::vector<int32_t>(values, values + chunks.offsets.dim(0));
  };
  const AttentionChunks one = chunks_of(batch_of({5, 3, 4}), {});
  EXPECT_EQ(offsets(one), (std::vector<int32_t>{0, 3, 5, 8, 11, 12}));
  EXPECT_EQ(one.longest, 3);
  EXPECT_EQ(one.causal_pairs, 3 * 6 + 3 + 1);
  // Under context parallelism those of whole rows, of which each rank has every head's share: the
  // first document is padded to 8 tokens.
  for (const int rank : {0, 1})
    EXPECT_EQ(offsets(chunks_of(batch_of({5, 4}), place_of(2, rank))),
              (std::vector<int32_t>{0, 3, 6, 8, 11, 12}));
  EXPECT_FALSE(upload(*device, batch_of({5}), 50, 16).chunks.offsets.defined());
}

/// Documents of these lengths without content.
HostBatch sizes_of(const std::vector<int>& lengths) {
  HostBatch batch;
  batch.sizes_only = true;
  for (const int length : lengths) batch.add_document_of(length);
  return batch;
}

std::vector<Shape> shapes_of(const Batch& batch) {
  std::vector<Shape> shapes;
  for (const Tensor* tensor : {&batch.ids, &batch.positions, &batch.targets, &batch.loss_weight,
                               &batch.token_index, &batch.document_offsets})
    shapes.push_back(tensor->shape());
  for (const ShiftedTokens& further : batch.shifted)
    for (const Tensor* tensor : {&further.ids, &further.targets, &further.loss_weight})
      shapes.push_back(tensor->shape());
  if (batch.context)
    for (const Tensor& tensor : batch.context->made) shapes.push_back(tensor.shape());
  return shapes;
}

TEST(CutBatch, WithoutContentHasTheSizesOfOneWithIt) {
  const auto device = make_sim_device();
  const std::vector<int> lengths{11, 8, 5};
  for (const int cp : {1, 2, 4}) {
    BatchPlace place = place_of(cp, cp - 1, 2);
    place.stream_part = 1, place.cp_inner = std::max(1, cp / 2);
    const auto on_device = [&](HostBatch whole) {
      add_shifted_tokens(whole, 2);
      whole.normalize_loss_weights();
      return upload(*device, cut_batch(std::move(whole), place, true), 50, 16, place);
    };
    const Batch full = on_device(batch_of(lengths)), sized = on_device(sizes_of(lengths));
    EXPECT_EQ(shapes_of(sized), shapes_of(full)) << cp;
    EXPECT_EQ(sized.max_document, full.max_document) << cp;
    EXPECT_EQ(sized.stream_begin, full.stream_begin) << cp;
    EXPECT_EQ(sized.stream_tokens, full.stream_tokens) << cp;
  }
  EXPECT_THROW(upload(*make_cpu_device(1), sizes_of(lengths), 50, 16), ShapeError);
}

}  // namespace
}  // namespace viaduct
