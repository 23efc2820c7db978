#pragma once
// A picture in memory, and what bounds one that is read or made.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace viaduct {

/// Colours as they are stored, eight bits a channel.
struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

/// A file of some kilobytes may say that it holds a picture of gigabytes.
struct PictureLimits {
  int64_t pixels = 100'000'000;                // height × width
  size_t file_bytes = size_t{256} << 20;       // of the file
  static constexpr int64_t kSide = 1'000'000;  // of either side, as libpng has it
  static constexpr int64_t kScans = 100;       // of a progressive JPEG
};

/// IoError that begins with `name` unless both sides are at least 1 and within the limits.
void check_picture_size(int64_t height, int64_t width, const PictureLimits& limits,
                        std::string_view name);

}  // namespace viaduct
