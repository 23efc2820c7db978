#include "image/image_processor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

/// Rows and columns of a picture from (top, left) on; what lies outside of it has `colour`.
Picture window(const Picture& picture, int64_t top, int64_t left, int64_t height, int64_t width,
               const std::array<uint8_t, 3>& colour) {
  Picture result{height, width, std::vector<uint8_t>(static_cast<size_t>(3 * height * width))};
  uint8_t* out = result.rgb.data();
  for (int64_t y = top; y < top + height; ++y) {
    for (int64_t x = left; x < left + width; ++x, out += 3) {
      const bool inside = y >= 0 && y < picture.height && x >= 0 && x < picture.width;
      const uint8_t* from =
          inside ? picture.rgb.data() + 3 * (y * picture.width + x) : colour.data();
      std::copy_n(from, 3, out);
    }
  }
  return result;
}

/// The picture in the middle of a square as long as its longer side.
Picture padded_to_square(const Picture& picture, const std::array<double, 3>& mean,
                         std::string_view name) {
  if (picture.height == picture.width) return picture;
  std::array<uint8_t, 3> colour{};
  for (size_t i = 0; i < colour.size(); ++i)
    colour[i] = static_cast<uint8_t>(std::clamp(mean[i], 0.0, 1.0) * 255);
  const int64_t side = std::max(picture.height, picture.width);
  check_picture_size(side, side, {}, name);
  return window(picture, -((side - picture.height) / 2), -((side - picture.width) / 2), side, side,
                colour);
}

/// Half of `length − size`, rounded towards less, as Python's `//`.
int64_t first_of_crop(int64_t length, int64_t size) {
  const int64_t more = length - size;
  return more >= 0 ? more / 2 : -((1 - more) / 2);
}

/// Height and width of a picture whose shorter side becomes `edge`.
std::pair<int64_t, int64_t> with_shortest_edge(const Picture& picture, int64_t edge) {
  const auto [shorter, longer] = std::minmax(picture.height, picture.width);
  const int64_t other = edge * longer / shorter;
  return picture.width <= picture.height ? std::pair{other, edge} : std::pair{edge, other};
}

}  // namespace

ImageProcessor::ImageProcessor(ImageProcessorSettings settings, const std::string& where)
    : settings_(std::move(settings)) {
  const auto& s = settings_;
  VIADUCT_CHECK(ConfigError, s.resize || s.center_crop,
                "{}: neither do_resize nor do_center_crop: pictures would keep their own sizes, "
                "and the model takes one size",
                where);
  VIADUCT_CHECK(ConfigError, s.center_crop || !s.shortest_edge || s.pad_to_square,
                "{}: size.shortest_edge={} without do_center_crop: pictures would keep the ratio "
                "of their sides, and the model takes squares",
                where, *s.shortest_edge);
  const int64_t height = s.center_crop ? s.crop_height : s.shortest_edge.value_or(s.height),
                width = s.center_crop ? s.crop_width : s.shortest_edge.value_or(s.width);
  VIADUCT_CHECK(ConfigError, height == width,
                "{}: pictures would be {} high and {} wide, and the model takes squares", where,
                height, width);
  side_ = height;
}

void ImageProcessor::apply(const Picture& picture, std::string_view name,
                           std::span<float> values) const {
  VIADUCT_CHECK(ShapeError, values.size() == this->values(),
                "a picture of {} values, expected {} × {} × {}", values.size(), kChannels, side_,
                side_);
  const auto& s = settings_;
  const Picture* taken = &picture;
  Picture made;
  const auto take = [&](Picture next) {
    made = std::move(next);
    taken = &made;
  };
  if (s.pad_to_square) take(padded_to_square(*taken, s.mean, name));
  if (s.resize) {
    const auto [height, width] = s.shortest_edge ? with_shortest_edge(*taken, *s.shortest_edge)
                                                 : std::pair{s.height, s.width};
    if (height != taken->height || width != taken->width)
      take(resized(*taken, height, width, s.resampling, name));
  }
  if (s.center_crop && (taken->height != s.crop_height || taken->width != s.crop_width)) {
    take(window(*taken, first_of_crop(taken->height, s.crop_height),
                first_of_crop(taken->width, s.crop_width), s.crop_height, s.crop_width, {}));
  }
  const auto plane = static_cast<size_t>(side_ * side_);
  for (size_t channel = 0; channel < 3; ++channel) {
    float* out = values.data() + channel * plane;
    const auto mean = static_cast<float>(s.mean[channel]),
               deviation = static_cast<float>(s.std[channel]);
    for (size_t i = 0; i < plane; ++i) {
      const uint8_t byte = taken->rgb[3 * i + channel];
      // Products in FP64 and quotients in FP32, as the reference.
      float value = s.rescale ? static_cast<float>(byte * s.rescale_factor) : byte;
      if (s.normalize) value = (value - mean) / deviation;
      out[i] = value;
    }
  }
}

void ImageProcessor::append(const Picture& picture, std::string_view name,
                            ImageBatch& batch) const {
  ImageBatch one{1, kChannels, side_, side_, std::vector<float>(values())};
  apply(picture, name, one.pixels);
  batch.append(one);
}

}  // namespace viaduct
