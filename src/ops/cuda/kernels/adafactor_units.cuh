#pragma once
// Units in which Adafactor adds up squares: sums are whole numbers below 2^53, the same in any
// order.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

/// What a square is multiplied by before it is rounded, `bits` being 51 less those of the number of
/// terms: as many of them, each at most limit², then add up to less than 2^52. 0 for a limit of 0.
__device__ inline double unit_of(float limit, int bits) {
  if (limit == 0) return 0;
  if (!(limit < __uint_as_float(0x7f800000u))) return __longlong_as_double(0x7ff8000000000000);
  const double square = static_cast<double>(limit) * limit;  // < 2^exponent, and never subnormal
  const int exponent = static_cast<int>(__double_as_longlong(square) >> 52) - 1022;
  return ldexp(1.0, bits - exponent);
}

}  // namespace viaduct::cuda
