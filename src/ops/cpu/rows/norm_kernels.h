#pragma once
// Types of the norm kernels of an instruction set.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

struct NormRows {
  bool layer_norm = false;
  int64_t width = 0;
  RowView x, y, dy, dx_add, dx;
  const void* weight = nullptr;
  const void* bias = nullptr;
  bool weight_f32 = true, bias_f32 = true;  // else the dtype of y and dy
  float* mean = nullptr;
  float* rstd = nullptr;
  float eps = 0, weight_offset = 0;
};

/// Rows [begin, end). `backward` writes its rows' parts of the gradients of weight and bias to
/// `d_weight` and `d_bias` (null: none), overwriting them.
struct NormKernels {
  void (*forward)(const NormRows& rows, int64_t begin, int64_t end);
  void (*backward)(const NormRows& rows, int64_t begin, int64_t end, float* d_weight,
                   float* d_bias);
  /// out[i] += Σ_b partial[b · stride + i], b ascending, i in [begin, end).
  void (*add_partials)(const float* partial, int64_t blocks, int64_t stride, float* out,
                       int64_t begin, int64_t end);
};

VIADUCT_KERNELS_WITH_BF16(NormKernels, norm_kernels)

}  // namespace viaduct::cpu
