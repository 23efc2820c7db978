#include "image/resize.h"

#include <algorithm>
#include <cmath>

namespace viaduct {
namespace {

constexpr int kWeightBits = 22;  // 255 times a weight of 2^22 and its overshoot fits 32 bits
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

double triangle(double x) {
  return std::max(0.0, 1 - std::abs(x));
}

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// For each place of a line of `to` pixels, the pixels of a line of `from` that it is made of and
/// their weights.
struct LineFilter {
  LineFilter(int64_t from, int64_t to, Resampling resampling) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double widened = std::max(scale, 1.0), narrowed = 1 / widened;
    const double support = (resampling == Resampling::bicubic ? 2 : 1) * widened;
    std::vector<double> exact;
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * scale;
      const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0),
                    end = std::min(static_cast<int64_t>(centre + support + 0.5), from);
      exact.clear();
      double sum = 0;
      for (int64_t at = first; at < end; ++at) {
        const double x = (static_cast<double>(at) - centre + 0.5) * narrowed;
        exact.push_back(resampling == Resampling::bicubic ? cubic(x) : triangle(x));
        sum += exact.back();
      }
      begins.push_back(first);
      weight_begins.push_back(static_cast<int64_t>(weights.size()));
      for (const double weight : exact) {
        const double scaled = (sum == 0 ? weight : weight / sum) * (1 << kWeightBits);
        weights.push_back(static_cast<int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5)));
      }
    }
    weight_begins.push_back(static_cast<int64_t>(weights.size()));
  }

  /// Place `i`, of pixels that are `stride` bytes apart.
  uint8_t at(size_t i, const uint8_t* line, int64_t stride) const {
    int32_t sum = kHalf;
    const uint8_t* pixel = line + begins[i] * stride;
    for (int64_t k = weight_begins[i]; k < weight_begins[i + 1]; ++k, pixel += stride)
      sum += *pixel * weights[static_cast<size_t>(k)];
    return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
  }

  std::vector<int64_t> begins, weight_begins;
  std::vector<int32_t> weights;
};

Picture empty(int64_t height, int64_t width, std::string_view name, const PictureLimits& limits) {
  check_picture_size(height, width, limits, name);
  return {height, width, std::vector<uint8_t>(static_cast<size_t>(3 * height * width))};
}

}  // namespace

Picture resized(const Picture& picture, int64_t height, int64_t width, Resampling resampling,
                std::string_view name, const PictureLimits& limits) {
  Picture between = empty(picture.height, width, name, limits);
  if (width == picture.width) {
    between.rgb = picture.rgb;
  } else {
    const LineFilter filter(picture.width, width, resampling);
    uint8_t* out = between.rgb.data();
    for (int64_t y = 0; y < picture.height; ++y) {
      const uint8_t* line = picture.rgb.data() + 3 * y * picture.width;
      for (size_t x = 0; x < static_cast<size_t>(width); ++x) {
        for (int channel = 0; channel < 3; ++channel) *out++ = filter.at(x, line + channel, 3);
      }
    }
  }
  if (height == picture.height) return between;
  Picture result = empty(height, width, name, limits);
  const LineFilter filter(picture.height, height, resampling);
  uint8_t* out = result.rgb.data();
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    for (int64_t i = 0; i < 3 * width; ++i)
      *out++ = filter.at(y, between.rgb.data() + i, 3 * width);
  }
  return result;
}

}  // namespace viaduct
