// instruction sets: portable avx2 avx512
// Sums over rows, compiled per instruction set.

#include "ops/cpu/rows/column_sum_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Rows are read from end to end, in memory order, four at a time: the sums of all columns are then
/// read and written once per four rows.
void sum_rows(const void* x, DType dtype, int64_t row_stride, int64_t rows, int64_t columns,
              float* out) {
  with_floats(dtype, x, [=](const auto* in) {
    for_row(columns, [&](int64_t i, auto... tail) { store(out + i, zero(), tail...); });
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      const auto *a = in + r * row_stride, *b = a + row_stride, *c = b + row_stride,
                 *d = c + row_stride;
      for_row(columns, [&](int64_t i, auto... tail) {
        const Vec left = add(load(a + i, tail...), load(b + i, tail...));
        const Vec right = add(load(c + i, tail...), load(d + i, tail...));
        store(out + i, add(load(out + i, tail...), add(left, right)), tail...);
      });
    }
    for (; r < rows; ++r) {
      const auto* a = in + r * row_stride;
      for_row(columns, [&](int64_t i, auto... tail) {
        store(out + i, add(load(out + i, tail...), load(a + i, tail...)), tail...);
      });
    }
  });
}

void merge(const float* partial, int64_t blocks, int64_t stride, int64_t columns, bool accumulate,
           float* out) {
  for_row(columns, [&](int64_t i, auto... tail) {
    Vec total = zero();
    for (int64_t b = 0; b < blocks; ++b)
      total = add(total, load(partial + b * stride + i, tail...));
    store(out + i, accumulate ? add(load(out + i, tail...), total) : total, tail...);
  });
}

}  // namespace

const ColumnSumKernels column_sum_kernels{sum_rows, merge};

}  // namespace viaduct::cpu::VIADUCT_ISA
