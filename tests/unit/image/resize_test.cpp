// Pictures of other sizes: bit for bit those of PIL (tests/data/images).

#include "image/resize.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "image/read_picture.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using nlohmann::json;

TEST(Resize, EqualsPilToTheBit) {
  const json expected = json::parse(read_file(test::test_data("images/expected.json")));
  ASSERT_EQ(expected["resizing"].size(), 10u);
  for (const json& of_pil : expected["resizing"]) {
    const auto name = of_pil["file"].get<std::string>();
    const Picture picture = read_picture(test::test_data("images/" + name));
    const auto filter = of_pil["resample"] == 2 ? Resampling::bilinear : Resampling::bicubic;
    const int64_t height = of_pil["height"], width = of_pil["width"];
    const Picture other = resized(picture, height, width, filter, name);
    EXPECT_EQ(other.height, height);
    EXPECT_EQ(other.width, width);
    EXPECT_EQ(other.rgb, of_pil["rgb"].get<std::vector<uint8_t>>())
        << name << " to " << width << " × " << height << ", filter " << of_pil["resample"];
  }
}

TEST(Resize, AConstantStaysAsItIs) {
  const Picture grey{5, 7, std::vector<uint8_t>(105, 77)};
  for (const Resampling filter : {Resampling::bilinear, Resampling::bicubic}) {
    for (const uint8_t value : resized(grey, 11, 3, filter, "grey").rgb) EXPECT_EQ(value, 77);
  }
}

TEST(Resize, WhatWouldBeTooLargeIsRefused) {
  const Picture line{1, 400, std::vector<uint8_t>(1200, 3)};
  EXPECT_THROW(resized(line, 100, 40000, Resampling::bicubic, "line", {.pixels = 1'000'000}),
               IoError);
  EXPECT_NO_THROW(resized(line, 100, 400, Resampling::bicubic, "line", {.pixels = 1'000'000}));
}

}  // namespace
}  // namespace viaduct
