// Images of a micro-batch dealt out over context ranks, and where their features stand in the parts
// of the rows.

#include "engine/deal_images.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/cut_batch.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// One channel of 2 x 2 pixels in one patch; two tokens of text rows for each.
constexpr ImageForm kForm{1, 2, 2, 2, 2, 7};

/// Two rows of eight tokens: two images, and one.
HostBatch whole() {
  HostBatch batch;
  for (const int32_t id : {1, 7, 7, 2, 3, 7, 7, 4, 5, 6, 7, 7, 1, 2, 3, 8}) {
    batch.positions.push_back(static_cast<int32_t>(batch.ids.size()) % 8);
    batch.token_index.push_back(100 + static_cast<int64_t>(batch.ids.size()));
    batch.ids.push_back(id);
    batch.targets.push_back(id);
    batch.loss_weight.push_back(1);
    if (batch.ids.size() % 8 == 0) batch.end_document();
  }
  batch.images = {3, 1, 2, 2, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}};
  return batch;
}

BatchPlace place_of(int rank) {
  BatchPlace place;
  place.cp = 2, place.cp_rank = rank, place.images = kForm;
  return place;
}

TEST(DealImages, EachRankHasEquallyManyAndBlankOnesFollow) {
  const HostBatch first = cut_batch(whole(), place_of(0), true),
                  second = cut_batch(whole(), place_of(1), true);
  EXPECT_THAT(first.images.pixels, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(second.images.pixels, ElementsAre(2, 2, 2, 2, 0, 0, 0, 0));
  EXPECT_EQ(second.images.count, 2);
  EXPECT_EQ(second.dealt->all, 4);
  EXPECT_THAT(first.dealt->begins, ElementsAre(101, 105));
  EXPECT_THAT(second.dealt->begins, ElementsAre(110, 0));
}

TEST(DealImages, FeaturesFollowTheirTokens) {
  // Chunks 0 and 3 of each row, and 1 and 2.
  EXPECT_THAT(cut_batch(whole(), place_of(0), true).dealt->features,
              ElementsAre(-1, 0, 3, -1, -1, -1, -1, -1));
  EXPECT_THAT(cut_batch(whole(), place_of(1), true).dealt->features,
              ElementsAre(1, -1, -1, 2, 4, 5, -1, -1));
}

TEST(DealImages, AMicroBatchWithoutImagesDealsNone) {
  HostBatch none = whole();
  for (int32_t& id : none.ids)
    if (id == kForm.token) id = 1;
  none.images = {};
  const HostBatch cut = cut_batch(none, place_of(1), true);
  EXPECT_TRUE(cut.images.empty());
  EXPECT_EQ(cut.dealt->all, 0);
}

TEST(DealImages, AreCheckedBeforeTheCut) {
  HostBatch wrong = whole();
  wrong.ids[1] = 1;
  EXPECT_THAT([&] { cut_batch(wrong, place_of(0), true); },
              ThrowsMessage<ShapeError>(HasSubstr("5 tokens of images (id 7), and 3 images")));
}

TEST(DealImages, PaddingBehindAnImageIsNoToken) {
  HostBatch row;
  for (const int32_t id : {1, 7, 7}) {
    row.positions.push_back(static_cast<int32_t>(row.ids.size()));
    row.token_index.push_back(static_cast<int64_t>(row.ids.size()));
    row.ids.push_back(id);
    row.targets.push_back(-1);
    row.loss_weight.push_back(0);
  }
  row.end_document();
  row.images = {1, 1, 2, 2, {1, 2, 3, 4}};
  BatchPlace place;
  place.stream_parts = 2, place.images = kForm;
  const HostBatch padded = cut_batch(row, place, true);
  EXPECT_THAT(padded.ids, ElementsAre(1, 7, 7, 0));
  EXPECT_EQ(padded.images.count, 1);
}

}  // namespace
}  // namespace viaduct
