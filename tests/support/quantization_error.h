#pragma once
// The expected error of quantized products, by their formats.

#include <cmath>
#include <vector>

#include "tensor/dtype.h"

namespace viaduct::test {

/// The root mean square of an element's relative error: uniform in half a step of 2^-3 (e4m3), 2^-2
/// (e5m2) or 2^-1 (e2m1) of its power of two 1/m, where the mean of 1/m² is 3 / (8 ln 2) for m in
/// [1, 2) with uniform logarithms.
inline double element_error(DType element) {
  const double step = element == DType::e4m3 ? 0x1p-3 : element == DType::e5m2 ? 0x1p-2 : 0x1p-1;
  return step / std::sqrt(12.0) * std::sqrt(3 / (8 * std::log(2.0)));
}

inline double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace viaduct::test
