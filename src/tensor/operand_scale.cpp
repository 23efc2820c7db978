#include "tensor/operand_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/number_formats.h"

namespace viaduct {

float largest_element(DType element) {
  switch (element) {
    case DType::e4m3:
      return 448;
    case DType::e5m2:
      return 57344;
    case DType::i8:
      return 127;
    case DType::e2m1x2:
      return 6;
    default:
      fail<DeviceError>(
          "scaled operand: {} is not an element format; expected e4m3, e5m2, i8 or e2m1x2",
          dtype_name(element));
  }
}

float operand_scale(float amax, DType element, const ScaleForm& form) {
  if (amax == 0) return 1;
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  const float least = amax / largest_element(element);
  if (form.dtype == DType::f32 && form.group == kWholeMatrix)
    return std::max(least, std::numeric_limits<float>::min());
  return static_cast<float>(float8_e8m0::not_below(least));
}

}  // namespace viaduct
