// The images in the batch file of `probe`: which of them each micro-batch gets.

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "probe/probe_batch.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

/// Images of one pixel, two rows each, with the token 9.
VisionConfig one_pixel() {
  VisionConfig vision;
  vision.layers = vision.hidden = vision.heads = vision.feed_forward = 1;
  vision.channels = vision.image_size = vision.patch_size = 1;
  vision.drops_first = false;
  vision.image_token = 9;
  return vision;
}

class ProbeImagesTest : public testing::Test {
 protected:
  /// Rows of 4 tokens; `pixels` of as many images.
  ProbeBatch read(const std::vector<int64_t>& ids, const std::vector<float>& pixels,
                  const VisionConfig& vision = one_pixel()) {
    const Tensor tokens = host_tensor(DType::i64, {static_cast<int64_t>(ids.size()) / 4, 4});
    std::copy(ids.begin(), ids.end(), tokens.data<int64_t>());
    std::map<std::string, Tensor> tensors{{"input_ids", tokens}};
    if (!pixels.empty()) {
      tensors["pixel_values"] =
          host_tensor(DType::f32, {static_cast<int64_t>(pixels.size()), 1, 1, 1});
      std::copy(pixels.begin(), pixels.end(), tensors["pixel_values"].data<float>());
    }
    write_safetensors(folder_ / "batch.safetensors", tensors);
    const SafetensorsFile file(folder_ / "batch.safetensors");
    ProbeBatch batch = read_probe_batch(file, "", -1);
    read_probe_images(file, "", -1, vision, batch);
    return batch;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ProbeImagesTest, EachRowHasItsOwn) {
  const ProbeBatch batch = read({9, 9, 9, 9, 1, 2, 3, 4, 1, 9, 9, 2}, {5, 6, 7});
  EXPECT_THAT(batch.micro_batch(0, 1).images.pixels, ElementsAre(5, 6));
  EXPECT_THAT(batch.micro_batch(1, 1).images.pixels, IsEmpty());
  EXPECT_THAT(batch.micro_batch(1, 2).images.pixels, ElementsAre(7));
  EXPECT_EQ(batch.micro_batch(0, 3).images.count, 3);
  EXPECT_TRUE(read({1, 2, 3, 4}, {}).micro_batch(0, 1).images.empty());
}

TEST_F(ProbeImagesTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(
      [&] {
        read({9, 9, 9, 1}, {5});
      },
      ThrowsMessage<IoError>(HasSubstr("3 tokens of images (id 9), and pixel_values has 1 "
                                       "images, which have 2 each: expected 2 tokens")));
  EXPECT_THAT([&] { read({9, 9, 1, 1}, {}); }, ThrowsMessage<IoError>(HasSubstr("has 0 images")));
  EXPECT_THAT(
      [&] {
        read({1, 1, 1, 1}, {5}, {});
      },
      ThrowsMessage<ConfigError>(HasSubstr("this one reads none")));
  VisionConfig larger = one_pixel();
  larger.image_size = 2;
  EXPECT_THAT(
      [&] {
        read({9, 9, 1, 1}, {5}, larger);
      },
      ThrowsMessage<IoError>(HasSubstr("expected a floating tensor [images, 1, 2, 2]")));
  EXPECT_THAT(
      [&] {
        read({1, 1, 1, 9, 9, 1, 1, 1}, {5}).micro_batch(1, 1);
      },
      ThrowsMessage<IoError>(HasSubstr("row 1 begins inside of an image, after 1 of its 2")));
}

}  // namespace
}  // namespace viaduct
