#pragma once
// The entry of `column_sum` (see ops/gemm.h), and the types of its kernels of an instruction set.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernel_sets.h"
#include "ops/gemm.h"
#include "ops/table.h"

namespace viaduct::cpu {

struct ColumnSumKernels {
  /// out [columns] = the sum of `rows` rows of x, `row_stride` elements apart.
  void (*sum_rows)(const void* x, DType dtype, int64_t row_stride, int64_t rows, int64_t columns,
                   float* out);
  /// out [columns] (= or +=) the sum of `blocks` rows of partial sums, `stride` apart, in order.
  void (*merge)(const float* partial, int64_t blocks, int64_t stride, int64_t columns,
                bool accumulate, float* out);
};

VIADUCT_KERNELS(ColumnSumKernels, column_sum_kernels)

OpEntry<ColumnSumArgs> column_sum_entry(CpuIsa isa);

}  // namespace viaduct::cpu
