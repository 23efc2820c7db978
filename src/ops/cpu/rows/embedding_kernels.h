#pragma once
// Kernels of the embedding family per instruction set (see gemm_kernels.h).

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

struct EmbeddingKernels {
  /// out [n] (= or +=) scale · row [n]; a null row means zeros.
  void (*gather)(const void* row, DType row_dtype, int64_t n, float scale, bool accumulate,
                 void* out, DType out_dtype);
  /// d_row [n] += scale · Σ over `count` tokens of d_out [n] at tokens[i] · stride elements.
  void (*scatter)(const void* d_out, DType dtype, int64_t stride, const int32_t* tokens,
                  int64_t count, int64_t n, float scale, float* d_row);
};

VIADUCT_KERNELS_FUNCTION(EmbeddingKernels, embedding_kernels)

}  // namespace viaduct::cpu
