// Images of several rows in one batch.

#include "data/image_batch.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

ImageBatch images(int64_t count, int64_t width, float first) {
  ImageBatch batch{count, 1, 1, width, {}};
  for (int64_t i = 0; i < count * width; ++i) batch.pixels.push_back(first + static_cast<float>(i));
  return batch;
}

TEST(ImageBatchTest, AppendsInOrder) {
  ImageBatch batch;
  batch.append(images(1, 2, 5));
  batch.append({});
  batch.append(images(2, 2, 0));
  EXPECT_EQ(batch.count, 3);
  EXPECT_EQ(batch.width, 2);
  EXPECT_THAT(batch.pixels, ElementsAre(5, 6, 0, 1, 2, 3));
}

TEST(ImageBatchTest, RefusesOtherSizes) {
  ImageBatch batch = images(1, 2, 0), damaged = images(1, 2, 0);
  EXPECT_THAT([&] { batch.append(images(1, 3, 0)); },
              ThrowsMessage<ShapeError>(HasSubstr("[1, 1, 2] and [1, 1, 3]")));
  damaged.pixels.pop_back();
  EXPECT_THAT([&] { batch.append(damaged); },
              ThrowsMessage<ShapeError>(HasSubstr("1 values of pixels, expected 2")));
}

}  // namespace
}  // namespace viaduct
