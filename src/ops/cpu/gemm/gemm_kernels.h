#pragma once
// Kernels of the gemm family per instruction set. Plain function pointers, so that the code that
// chooses and launches is compiled once, for no particular instruction set.

#include <cstddef>
#include <cstdint>

#include "ops/cpu/kernel_sets.h"
#include "tensor/dtype.h"

namespace viaduct::cpu {

struct GemmKernels {
  /// to [rows, columns] of `dtype` = (accumulate ? to : 0) + sums + bias, rounded once. bias may be
  /// null; it has `bias_dtype`. `streamed`: past the caches, see `stream`.
  void (*store)(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                const void* bias, DType bias_dtype, bool accumulate, void* to, DType dtype,
                int64_t row_stride, bool streamed);
  /// Copies rows of `bytes`, past the caches where the instruction set can and `to` is aligned to
  /// cache lines. `end_stream` comes before other threads read them.
  void (*stream)(const std::byte* from, int64_t from_stride, int64_t rows, int64_t bytes,
                 std::byte* to, int64_t to_stride);
  /// Orders what this thread has streamed before its later stores.
  void (*end_stream)();
  /// sums [rows, columns] *= factor.
  void (*scale)(float* sums, int64_t sums_stride, int64_t rows, int64_t columns, float factor);
};

VIADUCT_KERNELS_FUNCTION_WITH_BF16(GemmKernels, gemm_kernels)

}  // namespace viaduct::cpu
