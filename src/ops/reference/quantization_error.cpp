#include "ops/reference/quantization_error.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/reference/scaled_operand.h"
#include "tensor/operand_scale.h"

namespace viaduct::reference {

QuantizationError quantization_error(const Tensor& matrix, const Operand& operand) {
  VIADUCT_CHECK(ShapeError, !operand.form().rotated && matrix.shape() == operand.shape(),
                "quantization error: expected an operand of {} that is not rotated, got {}",
                describe(matrix), describe(operand));
  const Tensor values = dequantized(operand), scales = element_scales(operand);
  const float largest = largest_element(*operand.form().element);
  QuantizationError sum;
  sum.elements = static_cast<double>(matrix.elements());
  const int64_t columns = matrix.dim(1);
  dispatch_floating(matrix.dtype(), [&]<class T>(T) {
    for (int64_t r = 0; r < matrix.dim(0); ++r) {
      const T* row = matrix.data<T>() + r * matrix.stride(0);
      for (int64_t c = 0; c < columns; ++c) {
        const auto x = static_cast<double>(static_cast<float>(row[c]));
        if (!std::isfinite(x)) {
          sum.not_finite += 1;
          continue;
        }
        const double value = values.data<float>()[r * columns + c];
        const double scale = scales.data<float>()[r * columns + c];
        sum.nonzero += x != 0 ? 1 : 0;
        sum.underflows += x != 0 && value == 0 ? 1 : 0;
        sum.overflows += std::abs(x) > largest * scale ? 1 : 0;
        sum.square += x * x;
        sum.error_square += (value - x) * (value - x);
        sum.amax = std::max(sum.amax, std::abs(x));
        if (std::isnan(scale)) continue;
        sum.least_scale = std::min(sum.least_scale, scale);
        sum.most_scale = std::max(sum.most_scale, scale);
      }
    }
  });
  return sum;
}

}  // namespace viaduct::reference
