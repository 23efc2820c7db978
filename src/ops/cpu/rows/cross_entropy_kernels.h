#pragma once
// Kernels of the cross-entropy family per instruction set (see gemm_kernels.h).

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

struct CrossEntropyKernels {
  /// The largest of z [columns] (after the soft cap) and Σ exp(z − largest).
  void (*row_sum)(const void* z, DType z_dtype, int64_t columns, float softcap, float* largest,
                  double* sum);
  /// softcap · tanh(z / softcap), or z without one.
  float (*capped)(float z, float softcap);
  /// One row of the gradient: out [columns] = scale · (exp(z − lse) − onehot(target)) · dsoftcap,
  /// zero up to `width`. out may be z itself. target −1: none.
  void (*row_gradient)(const void* z, DType z_dtype, int64_t columns, int64_t width, double lse,
                       float scale, int64_t target, float softcap, void* out, DType out_dtype);
};

VIADUCT_KERNELS_FUNCTION_WITH_BF16(CrossEntropyKernels, cross_entropy_kernels)

}  // namespace viaduct::cpu
