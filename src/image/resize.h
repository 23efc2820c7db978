#pragma once
// Pictures of other sizes, as PIL makes them.

#include <string_view>

#include "image/picture.h"

namespace viaduct {

/// The filter that weighs the pixels around a place: a triangle of support 1, or the cubic
/// convolution of Keys (1981) with a = −1/2, of support 2.
enum class Resampling { bilinear, bicubic };

/// The picture in another size, equal to PIL's Image.resize to the last bit: rows first, then
/// columns, with a picture of eight bits between; a filter is widened by the factor of a reduction
/// (antialiasing), its weights are integers of 22 bits, sums are rounded to nearest. A side that
/// stays as it is has no pass. IoError that begins with `name` where the result, or the picture
/// between, is beyond the limits.
Picture resized(const Picture& picture, int64_t height, int64_t width, Resampling resampling,
                std::string_view name, const PictureLimits& limits = {});

}  // namespace viaduct
