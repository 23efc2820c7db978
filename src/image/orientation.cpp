#include "image/orientation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace viaduct {
namespace {

using namespace std::string_view_literals;

constexpr uint32_t kOrientation = 0x0112;
constexpr uint32_t kShort = 3, kLong = 4;  // types of values
constexpr size_t kEntryBytes = 12;         // tag, type, count, value

/// Numbers of a TIFF structure in its byte order; 0 beyond its end.
class TiffNumbers {
 public:
  TiffNumbers(std::string_view bytes, bool little) : bytes_(bytes), little_(little) {}

  uint32_t at(size_t offset, size_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t place = little_ ? size - 1 - i : i;
      value = value << 8 | static_cast<unsigned char>(bytes_[offset + place]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::string_view exif) {
  if (exif.starts_with("Exif\0\0"sv)) exif.remove_prefix(6);
  const bool little = exif.starts_with("II*\0"sv);
  if (!little && !exif.starts_with("MM\0*"sv)) return 1;
  const TiffNumbers numbers(exif, little);
  const size_t directory = numbers.at(4, 4);
  const uint32_t entries = numbers.at(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > exif.size()) break;
    if (numbers.at(entry, 2) != kOrientation) continue;
    const uint32_t type = numbers.at(entry + 2, 2);
    const uint32_t value = type == kShort  ? numbers.at(entry + 8, 2)
                           : type == kLong ? numbers.at(entry + 8, 4)
                                           : 1;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Picture upright(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  const bool turned = orientation >= 5;  // the sides change places
  Picture result;
  result.height = turned ? picture.width : picture.height;
  result.width = turned ? picture.height : picture.width;
  result.rgb.resize(picture.rgb.size());
  const int64_t last_row = picture.height - 1, last_column = picture.width - 1;
  // Whether the stored rows, and columns, run backwards.
  const bool rows_back =
                 orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
             columns_back =
                 orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  uint8_t* to = result.rgb.data();
  for (int64_t y = 0; y < result.height; ++y) {
    for (int64_t x = 0; x < result.width; ++x, to += 3) {
      const int64_t row = turned ? x : y, column = turned ? y : x;
      const int64_t from_row = rows_back ? last_row - row : row,
                    from_column = columns_back ? last_column - column : column;
      const auto from = static_cast<size_t>(3 * (from_row * picture.width + from_column));
      std::copy_n(picture.rgb.data() + from, 3, to);
    }
  }
  return result;
}

}  // namespace viaduct
