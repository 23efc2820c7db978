#pragma once
// Kernels of the ops over rows of experts per instruction set (see gemm_kernels.h).

#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

struct ExpertRowsKernels {
  /// out [n] = Σ over `places` of weight[p / copies] · rows[position[p]], rows `stride` elements
  /// apart; weights 1 if null.
  void (*combine)(const void* rows, DType dtype, int64_t stride, const int32_t* position,
                  int64_t places, const float* weight, int64_t copies, int64_t n, void* out,
                  DType out_dtype);
  /// Returns d_out [n] · row [n], 0 if `row` is null; then d_row [n] = weight · d_out. d_row may be
  /// row.
  float (*spread)(const void* d_out, DType out_dtype, const void* row, float weight, int64_t n,
                  void* d_row, DType dtype);
  /// x [n] · y [n].
  float (*dot)(const void* x, DType x_dtype, const void* y, DType y_dtype, int64_t n);
};

VIADUCT_KERNELS_FUNCTION(ExpertRowsKernels, expert_rows_kernels)

}  // namespace viaduct::cpu
