#pragma once
// Kernels of the softmax family per instruction set (see gemm_kernels.h): n elements of one row,
// f32.

#include "ops/cpu/kernel_sets.h"
#include "ops/softmax.h"

namespace viaduct::cpu {

/// What a row's elements are mapped with.
struct RowNumbers {
  const float* by = nullptr;  // of soft_cap_backward: an element each
  float number = 0;           // the cap; the row's value; of loss_backward: weight · factor
};

struct SoftmaxKernels {
  float (*largest)(const float* x, int64_t n);  // n ≥ 1
  float (*sum)(const float* x, int64_t n);
  /// loss_backward as for a row without target.
  void (*map)(RowMap map, const float* x, const RowNumbers& numbers, float* out, int64_t n);
};

VIADUCT_KERNELS(SoftmaxKernels, softmax_kernels)

}  // namespace viaduct::cpu
