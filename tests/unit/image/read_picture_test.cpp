// PNG and JPEG files as PIL reads them (tests/data/images), and files that are no pictures.

#include "image/read_picture.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string bytes_of(const std::string& name) {
  return read_file(test::test_data("images/" + name));
}

/// What decoding says is wrong.
std::string problem_of(const std::string& bytes, const PictureLimits& limits = {}) {
  try {
    decode_picture(bytes, "chat/a.png", limits);
  } catch (const IoError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(ReadPicture, EqualsPil) {
  const json expected = json::parse(bytes_of("expected.json"));
  for (const auto& [name, of_pil] : expected["reading"].items()) {
    const Picture picture = read_picture(test::test_data("images/" + name));
    EXPECT_EQ(picture.height, of_pil["height"].get<int64_t>()) << name;
    EXPECT_EQ(picture.width, of_pil["width"].get<int64_t>()) << name;
    const auto rgb = of_pil["rgb"].get<std::vector<int>>();
    ASSERT_EQ(picture.rgb.size(), rgb.size()) << name;
    // Decoders of JPEG may differ by one in the last bit.
    const int allowed = name.ends_with(".jpg") ? 1 : 0;
    for (size_t i = 0; i < rgb.size(); ++i)
      ASSERT_LE(std::abs(picture.rgb[i] - rgb[i]), allowed) << name << " at " << i;
  }
}

TEST(ReadPicture, OtherFormatsAreNamed) {
  using namespace std::string_literals;
  EXPECT_EQ(problem_of(""), "chat/a.png: an empty file, expected a picture");
  EXPECT_THAT(problem_of("GIF89a..."), HasSubstr("in the format GIF; PNG and JPEG are read"));
  EXPECT_THAT(problem_of("RIFF\1\2\3\4WEBPVP8 "), HasSubstr("format WebP"));
  EXPECT_THAT(problem_of("\0\0\0\x1c"s + "ftypavif"), HasSubstr("format AVIF"));
  EXPECT_THAT(problem_of("II*\0"s), HasSubstr("format TIFF"));
  for (const char* other : {"<html>", "ftyp", "RIFF", "\xff\xd8"})
    EXPECT_THAT(problem_of(other), HasSubstr("not a picture in PNG or JPEG")) << other;
}

TEST(ReadPicture, CmykIsRefusedByName) {
  EXPECT_THAT(problem_of(bytes_of("cmyk.jpg")), HasSubstr("CMYK"));
}

TEST(ReadPicture, AFileThatIsCutOffIsRefused) {
  for (const char* name : {"noise.png", "rgb.jpg", "progressive.jpg"}) {
    const std::string whole = bytes_of(name);
    for (const size_t left : {whole.size() - 20, whole.size() / 2, size_t{40}, size_t{9}}) {
      EXPECT_THAT(problem_of(whole.substr(0, left)),
                  AllOf(HasSubstr("chat/a.png: "), HasSubstr("not a readable ")))
          << name << " of " << left << " bytes";
    }
  }
}

TEST(ReadPicture, NoMemoryIsTakenForAChunkThatEndsBehindTheFile) {
  std::string png = bytes_of("noise.png");
  png.insert(33, std::string("\x60\0\0\x1a\x65XIf", 8));  // behind the header
  EXPECT_THAT(problem_of(png), HasSubstr("a chunk at byte 33 has 1610612762 bytes"));
}

TEST(ReadPicture, DamageIsRefused) {
  std::string bytes = bytes_of("noise.png");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
  EXPECT_THAT(problem_of(bytes), HasSubstr("chat/a.png: not a readable PNG: "));
}

TEST(ReadPicture, SizesAreLimited) {
  EXPECT_THAT(problem_of(bytes_of("noise.png"), {.pixels = 100}),
              HasSubstr("a picture of 13 × 9 pixels; at most 100 pixels"));
  EXPECT_EQ(problem_of(bytes_of("noise.png"), {.pixels = 117}), "nothing");
  // A header that says 60 000 × 1 000 pixels of a file of 400 bytes: no memory is taken for it.
  std::string png = bytes_of("wide.png"), jpeg = bytes_of("rgb.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x03\xe8\xea\x60", 4);
  EXPECT_THAT(problem_of(jpeg), HasSubstr("do not hold 60000 × 1000 pixels"));
  EXPECT_THAT(problem_of(png.replace(16, 8, std::string("\0\0\xea\x60\0\0\x03\xe8", 8))),
              HasSubstr("not a readable PNG"));
}

}  // namespace
}  // namespace viaduct
