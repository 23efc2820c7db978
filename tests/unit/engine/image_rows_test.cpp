// Images on their way to the device: patches, and where their features stand.

#include "engine/image_rows.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "engine/cut_batch.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two channels of 3 x 3 pixels in patches of 2 (one), a token in front of them, which is dropped.
constexpr ImageForm kSmall{2, 3, 2, 2, 1, 7};
/// One channel of 4 x 4 in four patches, all of which are read.
constexpr ImageForm kFour{1, 4, 2, 4, 4, 7};

HostBatch rows(const std::vector<int32_t>& ids) {
  HostBatch batch;
  for (size_t t = 0; t < ids.size(); ++t) {
    batch.ids.push_back(ids[t]);
    batch.positions.push_back(static_cast<int32_t>(t));
    batch.targets.push_back(-1);
    batch.loss_weight.push_back(0);
    batch.token_index.push_back(100 + static_cast<int64_t>(t));
  }
  batch.end_document();
  return batch;
}

/// Pixels 0, 1, 2, …
ImageBatch count_up(int64_t images, const ImageForm& form) {
  ImageBatch batch{images, form.channels, form.side, form.side, {}};
  batch.pixels.resize(static_cast<size_t>(images * form.channels * form.side * form.side));
  std::iota(batch.pixels.begin(), batch.pixels.end(), 0.0f);
  return batch;
}

Batch on_device(const HostBatch& batch, const ImageForm& form) {
  static const auto device = make_cpu_device(1);
  return upload(*device, batch, 10, 32, {.images = form});
}

template <class T>
std::vector<T> list(const Tensor& tensor) {
  return {tensor.data<T>(), tensor.data<T>() + tensor.elements()};
}

TEST(ImageRowsTest, PatchesHaveTheirChannelsOneAfterTheOther) {
  HostBatch batch = rows({1, 7, 2});
  batch.images = count_up(1, kSmall);
  const Batch made = on_device(batch, kSmall);
  const Batch& tower = made.encoder->rows;
  EXPECT_EQ(tower.patches.shape(), (Shape{1, 8}));
  EXPECT_THAT(list<float>(tower.patches), ElementsAre(0, 1, 3, 4, 9, 10, 12, 13));
  EXPECT_THAT(list<int32_t>(tower.ids), ElementsAre(0, 1));
  EXPECT_THAT(list<int32_t>(tower.positions), ElementsAre(0, 1));
  // By where the image begins in the rows of text, whatever the layout.
  EXPECT_THAT(list<int64_t>(tower.token_index), ElementsAre(202, 203));
}

TEST(ImageRowsTest, PatchesFollowTheRowsOfAnImage) {
  HostBatch batch = rows({7, 7, 7, 7});
  batch.images = count_up(1, kFour);
  EXPECT_THAT(list<float>(on_device(batch, kFour).encoder->rows.patches),
              ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
}

TEST(ImageRowsTest, FeaturesStandInTheOrderOfTheirTokens) {
  HostBatch batch = rows({7, 1, 7, 7, 2});
  batch.images = count_up(3, kSmall);
  const Batch made = on_device(batch, kSmall);
  EXPECT_EQ(made.images.rows, 3);
  EXPECT_THAT(list<int32_t>(made.images.features), ElementsAre(0, -1, 1, 2, -1));
  EXPECT_THAT(list<int32_t>(made.images.ids), ElementsAre(-1, 1, -1, -1, 2));
  EXPECT_THAT(list<int32_t>(made.encoder->rows.document_offsets), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(made.encoder->rows.max_document, 2);
}

TEST(ImageRowsTest, ABatchMayHaveNone) {
  const Batch made = on_device(rows({1, 2}), kSmall);
  EXPECT_TRUE(made.images.any());
  EXPECT_EQ(made.images.rows, 0);
  EXPECT_EQ(made.encoder->rows.tokens(), 0);
  EXPECT_EQ(made.encoder->rows.patches.shape(), (Shape{0, 8}));
  EXPECT_FALSE(on_device(rows({1, 7}), {}).images.any());  // of a model that reads none: a token
}

/// Images side by side are one, those of two documents are not.
TEST(ImageRowsTest, TokensThatSeeAheadAreReadFromTheEndOfTheirImage) {
  ImageForm form = kSmall;
  form.sees_ahead = true;
  HostBatch batch = rows({7, 7, 1, 7});
  const HostBatch second = rows({7, 2});
  batch.ids.insert(batch.ids.end(), second.ids.begin(), second.ids.end());
  for (int t = 0; t < 2; ++t) {
    batch.positions.push_back(t), batch.targets.push_back(-1), batch.loss_weight.push_back(0);
    batch.token_index.push_back(t);
  }
  batch.end_document();
  batch.images = count_up(4, form);
  const BatchImages::Ahead ahead = on_device(batch, form).images.ahead;
  EXPECT_THAT(list<int32_t>(ahead.tokens), ElementsAre(1, 0, 3, 4));
  EXPECT_THAT(list<int32_t>(ahead.offsets), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(list<int32_t>(ahead.diagonal), ElementsAre(-1, -1, -1));
  EXPECT_THAT(list<int32_t>(ahead.place), ElementsAre(1, 0, -1, 2, 3, -1));
  EXPECT_THAT(list<int32_t>(ahead.others), ElementsAre(-1, -1, 2, -1, -1, 5));
  EXPECT_EQ(ahead.longest, 2);
  EXPECT_FALSE(on_device(batch, kSmall).images.ahead.any());
}

/// As the heads of an exchange have the rows: all tokens, and the padding of the last document.
TEST(ImageRowsTest, ContextRanksSeeAheadInTheRowsOfAll) {
  ImageForm form = kSmall;
  form.sees_ahead = true;
  HostBatch batch = rows({1, 7, 7, 2, 7, 3, 7});
  batch.images = count_up(4, form);
  for (int rank = 0; rank < 2; ++rank) {
    const BatchPlace place{.cp = 2, .cp_rank = rank, .images = form};
    static const auto device = make_cpu_device(1);
    const Batch made = upload(*device, cut_batch(batch, place, true), 10, 32, place);
    EXPECT_EQ(made.tokens(), 4);
    const BatchImages::Ahead& ahead = made.images.ahead;
    EXPECT_THAT(list<int32_t>(ahead.tokens), ElementsAre(2, 1, 4, 6));
    EXPECT_THAT(list<int32_t>(ahead.offsets), ElementsAre(0, 2, 3, 4));
    EXPECT_THAT(list<int32_t>(ahead.place), ElementsAre(-1, 1, 0, -1, 2, -1, 3, -1));
    EXPECT_THAT(list<int32_t>(ahead.others), ElementsAre(0, -1, -1, 3, -1, 5, -1, 7));
    EXPECT_EQ(ahead.longest, 2);
  }
}

TEST(ImageRowsTest, RefusesWhatDoesNotFit) {
  HostBatch batch = rows({7, 7, 7});
  batch.images = count_up(1, kFour);
  EXPECT_THAT([&] { on_device(batch, kFour); },
              ThrowsMessage<ShapeError>(HasSubstr("3 tokens of images (id 7), and 1 images, which "
                                                  "have 4 each: expected 4 tokens")));
  batch = rows({7});
  batch.images = count_up(1, kFour);
  EXPECT_THAT(
      [&] { on_device(batch, kSmall); },
      ThrowsMessage<ShapeError>(HasSubstr("1 channels and 4 x 4 pixels, expected 2 and 3")));
  EXPECT_THAT([&] { on_device(batch, {}); },
              ThrowsMessage<ShapeError>(HasSubstr("1 image for a model that reads none")));
}

}  // namespace
}  // namespace viaduct
