#pragma once
// The rotation of 16 elements along the contracted dim (tensor/hadamard.h), in the cpu's order.

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {

inline constexpr int kRotatedRows = 16;

__device__ inline void rotate(float (&x)[kRotatedRows]) {
  // A bit for each element whose sign is turned.
  constexpr unsigned kNegative = 0b1101'0111'1110'1000;
#pragma unroll
  for (int i = 0; i < kRotatedRows; ++i) x[i] *= (kNegative >> i & 1) != 0 ? -0.25f : 0.25f;
#pragma unroll
  for (int apart = 1; apart < kRotatedRows; apart *= 2) {
#pragma unroll
    for (int i = 0; i < kRotatedRows; ++i) {
      if ((i & apart) != 0) continue;
      const float sum = x[i] + x[i + apart], difference = x[i] - x[i + apart];
      x[i] = sum, x[i + apart] = difference;
    }
  }
}

/// The bits of the largest magnitude of a column of rotated rows: `there` of them from `first` on,
/// completed by zeros.
__device__ inline uint32_t largest_rotated(const Rows& matrix, int64_t first, int there,
                                           int64_t column) {
  float x[kRotatedRows];
#pragma unroll
  for (int r = 0; r < kRotatedRows; ++r) {
    float one[1] = {};
    if (r < there) load(address_of(matrix, first + r), matrix.format, column, one);
    x[r] = one[0];
  }
  rotate(x);
  uint32_t most = 0;
#pragma unroll
  for (int r = 0; r < kRotatedRows; ++r)
    most = LargestOf{}(most, __float_as_uint(x[r]) & 0x7fffffffu);
  return most;
}

}  // namespace viaduct::cuda
