#pragma once
// Kernels of the softmax family per instruction set (see gemm_kernels.h): one row each, f32.

#include <cstdint>

#include "ops/cpu/kernel_sets.h"

namespace viaduct::cpu {

struct SoftmaxKernels {
  /// out = cap · tanh(x / cap)
  void (*soft_cap)(const float* x, float cap, float* out, int64_t n);
  /// d_in = d_out · (1 − (z / cap)²)
  void (*soft_cap_backward)(const float* d_out, const float* z, float cap, float* d_in, int64_t n);
  /// n ≥ 1
  float (*largest)(const float* x, int64_t n);
  /// out = exp(x − shift)
  void (*exponential)(const float* x, float shift, float* out, int64_t n);
  float (*sum)(const float* x, int64_t n);
  /// out = x / divisor
  void (*divide)(const float* x, float divisor, float* out, int64_t n);
  /// out = factor · x
  void (*scale)(const float* x, float factor, float* out, int64_t n);
};

VIADUCT_KERNELS_FUNCTION(SoftmaxKernels, softmax_kernels)

}  // namespace viaduct::cpu
