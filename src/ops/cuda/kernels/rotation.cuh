#pragma once
// The rotation of 16 elements along the contracted dim (tensor/hadamard.h), in the cpu's order.

#include "ops/cuda/kernels/kernel.h"

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

}  // namespace viaduct::cuda
