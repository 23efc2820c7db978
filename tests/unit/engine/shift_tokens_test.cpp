// The later tokens that multi-token prediction reads, whole and cut over context ranks.

#include "engine/shift_tokens.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/cut_batch.h"

namespace viaduct {
namespace {

/// Token t has id 10 + t and target 20 + t; every third is not scored.
HostBatch batch_of(const std::vector<int>& lengths) {
  HostBatch batch;
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i) {
      const auto t = static_cast<int32_t>(batch.tokens());
      const bool scored = t % 3 != 0;
      batch.ids.push_back(10 + t);
      batch.positions.push_back(i);
      batch.targets.push_back(scored ? 20 + t : -1);
      batch.loss_weight.push_back(scored ? 0.5f : 0.0f);
      batch.token_index.push_back(t);
    }
    batch.end_document();
  }
  return batch;
}

TEST(ShiftTokens, StayInTheirDocument) {
  HostBatch batch = batch_of({4, 1, 3});
  add_shifted_tokens(batch, 2);
  ASSERT_EQ(batch.shifted.size(), 2u);
  EXPECT_EQ(batch.shifted[0].ids, (std::vector<int32_t>{11, 12, 13, 0, 0, 16, 17, 0}));
  EXPECT_EQ(batch.shifted[0].targets, (std::vector<int32_t>{21, 22, -1, -1, -1, -1, 27, -1}));
  EXPECT_EQ(batch.shifted[0].loss_weight, (std::vector<float>{0.5f, 0.5f, 0, 0, 0, 0, 0.5f, 0}));
  EXPECT_EQ(batch.shifted[1].ids, (std::vector<int32_t>{12, 13, 0, 0, 0, 17, 0, 0}));
  EXPECT_EQ(batch.shifted[1].targets, (std::vector<int32_t>{22, -1, -1, -1, -1, 27, -1, -1}));
  add_shifted_tokens(batch, 1);
  EXPECT_EQ(batch.shifted.size(), 1u) << "once, however often it is called";
}

TEST(ShiftTokens, MeansAreOfEachDepth) {
  HostBatch batch = batch_of({4, 4});
  add_shifted_tokens(batch, 1);
  batch.normalize_loss_weights();
  float sum = 0;
  for (const float weight : batch.shifted[0].loss_weight) sum += weight;
  EXPECT_FLOAT_EQ(sum, 1);
  EXPECT_FLOAT_EQ(batch.shifted[0].loss_weight[0], 0.25f) << "of 4 tokens";
  EXPECT_FLOAT_EQ(batch.loss_weight[1], 0.2f) << "of 5";
}

TEST(ShiftTokens, AreCutWithTheirTokens) {
  HostBatch whole = batch_of({8, 3});
  add_shifted_tokens(whole, 1);
  for (int rank = 0; rank < 2; ++rank) {
    BatchPlace place;
    place.cp = 2, place.cp_rank = rank;
    const HostBatch cut = cut_batch(whole, place, true);
    const auto sources = cut_sources(whole.document_offsets, place, true);
    ASSERT_EQ(cut.shifted.at(0).ids.size(), sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      const int64_t from = sources[i];
      const HostShiftedTokens &got = cut.shifted[0], &all = whole.shifted[0];
      if (from < 0) {
        EXPECT_EQ(got.targets[i], -1);
        EXPECT_EQ(got.loss_weight[i], 0);
        continue;
      }
      const auto at = static_cast<size_t>(from);
      EXPECT_EQ(got.ids[i], all.ids[at]);
      EXPECT_EQ(got.targets[i], all.targets[at]);
      EXPECT_EQ(got.loss_weight[i], all.loss_weight[at]);
    }
  }
}

TEST(ShiftTokens, AreCheckedLikeTheOthers) {
  const auto device = make_cpu_device(1);
  HostBatch batch = batch_of({4});
  add_shifted_tokens(batch, 1);
  EXPECT_EQ(upload(*device, batch, 40, 8).shifted.size(), 1u);
  batch.shifted[0].ids[1] = 40;
  EXPECT_THROW(upload(*device, batch, 40, 8), ShapeError);
  batch.shifted[0].ids.pop_back();
  EXPECT_THROW(upload(*device, batch, 50, 8), ShapeError);
}

}  // namespace
}  // namespace viaduct
