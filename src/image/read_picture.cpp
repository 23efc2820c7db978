#include "image/read_picture.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "image/orientation.h"
#include "image/read_jpeg.h"
#include "image/read_png.h"

namespace viaduct {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xff\xd8\xff";

/// The name of a format that is not read, by the first bytes of a file; "" for anything else.
std::string_view other_format(std::string_view bytes) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kStarts = {
      {{"GIF8"sv, "GIF"},
       {"BM"sv, "BMP"},
       {"II*\0"sv, "TIFF"},
       {"MM\0*"sv, "TIFF"},
       {"\xff\x0a"sv, "JPEG XL"},
       {"\0\0\0\x0cJXL "sv, "JPEG XL"},
       {"\0\0\0\x0cjP  "sv, "JPEG 2000"},
       {"<svg"sv, "SVG"}}};
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8).starts_with("WEBP"))
    return "WebP";
  if (bytes.size() >= 12 && bytes.substr(4).starts_with("ftyp"))
    return bytes.substr(8).starts_with("avif") ? "AVIF" : "HEIC";
  const auto found = std::ranges::find_if(
      kStarts, [&](const auto& start) { return bytes.starts_with(start.first); });
  return found == kStarts.end() ? "" : found->second;
}

}  // namespace

void check_picture_size(int64_t height, int64_t width, const PictureLimits& limits,
                        std::string_view name) {
  constexpr int64_t kSide = PictureLimits::kSide;
  VIADUCT_CHECK(IoError, height >= 1 && width >= 1, "{}: a picture of {} × {} pixels", name, width,
                height);
  VIADUCT_CHECK(IoError, height <= kSide && width <= kSide && height * width <= limits.pixels,
                "{}: a picture of {} × {} pixels; at most {} pixels, and {} a side, are taken",
                name, width, height, limits.pixels, kSide);
}

Picture decode_picture(std::string_view bytes, const std::string& name,
                       const PictureLimits& limits) {
  StoredPicture stored;
  if (bytes.starts_with(kPng)) {
    stored = read_png(bytes, name, limits);
  } else if (bytes.starts_with(kJpeg)) {
    stored = read_jpeg(bytes, name, limits);
  } else {
    VIADUCT_CHECK(IoError, !bytes.empty(), "{}: an empty file, expected a picture", name);
    const std::string_view other = other_format(bytes);
    VIADUCT_CHECK(IoError, other.empty(), "{}: a picture in the format {}; PNG and JPEG are read",
                  name, other);
    fail<IoError>("{}: not a picture in PNG or JPEG: it begins with other bytes", name);
  }
  return upright(std::move(stored.picture), exif_orientation(stored.exif));
}

Picture read_picture(const std::filesystem::path& file, const PictureLimits& limits) {
  return decode_picture(read_file(file, limits.file_bytes), file.string(), limits);
}

}  // namespace viaduct
