// Random rows with an image each.

#include "data/mock_image_dataset.h"

#include <gmock/gmock.h>

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Lt;
using testing::Not;

MockImageDataset rows(int64_t of_image, int32_t token) {
  return {10, 20, 5, {.sequence_length = 8, .eod_id = -1}, {2, 3, of_image, token}};
}

TEST(MockImageDatasetTest, ARowBeginsWithItsImage) {
  const Sample sample = rows(3, 7).get(4);
  EXPECT_THAT(std::vector(sample.tokens.begin(), sample.tokens.begin() + 4),
              ElementsAre(7, 7, 7, Not(7)));
  EXPECT_THAT(std::vector(sample.loss_mask.begin(), sample.loss_mask.begin() + 4),
              ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(sample.labels[2], sample.tokens[3]);
  EXPECT_THAT(std::vector(sample.tokens.begin() + 3, sample.tokens.end()), Each(Not(7)));
  EXPECT_EQ(sample.images.count, 1);
  EXPECT_EQ(sample.images.pixels.size(), 18u);
  EXPECT_THAT(sample.images.pixels, Each(AllOf(Ge(-1.0f), Lt(1.01f))));
}

TEST(MockImageDatasetTest, IsAFunctionOfTheRow) {
  const MockImageDataset data = rows(3, 0);
  Sample reused;
  data.get(2, reused);
  data.get(4, reused);
  EXPECT_EQ(reused.images.pixels, data.get(4).images.pixels);
  EXPECT_NE(reused.images.pixels, data.get(2).images.pixels);
  EXPECT_EQ(reused.images.count, 1);
}

TEST(MockImageDatasetTest, RowsThatAreTooShortHaveNone) {
  const Sample sample = rows(9, 7).get(0);
  EXPECT_TRUE(sample.images.empty());
  EXPECT_THAT(sample.tokens, Each(Not(7)));
}

}  // namespace
}  // namespace viaduct
