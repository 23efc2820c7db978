#include "data/image_batch.h"

#include "base/error.h"

namespace viaduct {
namespace {

void check_pixels(const ImageBatch& images) {
  const int64_t values = images.count * images.channels * images.height * images.width;
  VIADUCT_CHECK(ShapeError, static_cast<int64_t>(images.pixels.size()) == values,
                "images: {} values of pixels, expected {} [{}, {}, {}, {}]", images.pixels.size(),
                values, images.count, images.channels, images.height, images.width);
}

}  // namespace

void ImageBatch::append(const ImageBatch& more) {
  check_pixels(*this);
  check_pixels(more);
  if (more.empty()) return;
  if (empty()) {
    *this = more;
    return;
  }
  VIADUCT_CHECK(ShapeError,
                channels == more.channels && height == more.height && width == more.width,
                "images: [{}, {}, {}] and [{}, {}, {}] (channels, height, width) in one batch, "
                "expected one size",
                channels, height, width, more.channels, more.height, more.width);
  count += more.count;
  pixels.insert(pixels.end(), more.pixels.begin(), more.pixels.end());
}

}  // namespace viaduct
