// Any bytes as a PNG or JPEG: a picture within the limits, or refused.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "image/read_picture.h"
#include "image/resize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  // Small, so that many inputs are tried: a picture of few bytes may have many pixels.
  const PictureLimits limits{.pixels = 1 << 16};
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Picture picture = decode_picture(bytes, "input", limits);
    const bool good = picture.height * picture.width <= limits.pixels &&
                      picture.rgb.size() == static_cast<size_t>(3 * picture.height * picture.width);
    if (!good) std::abort();
    resized(picture, 3, 5, Resampling::bicubic, "input", limits);
  } catch (const Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
