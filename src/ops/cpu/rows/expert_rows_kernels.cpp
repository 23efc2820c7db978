// instruction sets: portable avx2 avx512
// A token's sum over its rows, the gradient of one row, and the dot product of two. Compiled per
// instruction set (see simd.h).

#include "ops/cpu/rows/expert_rows_kernels.h"

#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void combine(const void* rows, DType dtype, int64_t stride, const int32_t* position, int64_t places,
             const float* weight, int64_t copies, int64_t n, void* out, DType out_dtype) {
  with_floats(dtype, rows, [=](const auto* from) {
    with_floats(out_dtype, out, [=](auto* to) {
      for_row(n, [&](int64_t i, auto... tail) {
        Vec sum = zero();
        for (int64_t p = 0; p < places; ++p) {
          if (position[p] < 0) continue;
          const Vec row = load(from + position[p] * stride + i, tail...);
          sum = weight == nullptr ? add(sum, row) : fma(set1(weight[p / copies]), row, sum);
        }
        store(to + i, sum, tail...);
      });
    });
  });
}

float spread(const void* d_out, DType out_dtype, const void* row, float weight, int64_t n,
             void* d_row, DType dtype) {
  float product = 0;
  with_floats(out_dtype, d_out, [&](const auto* d) {
    with_floats(dtype, d_row, [&](auto* to) {
      const auto* from = static_cast<decltype(to)>(const_cast<void*>(row));
      Vec sums = zero();
      const Vec factor = set1(weight);
      for_row(n, [&](int64_t i, auto... tail) {
        const Vec gradient = load(d + i, tail...);
        if (from != nullptr) sums = fma(gradient, load(from + i, tail...), sums);
        store(to + i, mul(factor, gradient), tail...);
      });
      product = sum(sums);
    });
  });
  return product;
}

float dot(const void* x, DType x_dtype, const void* y, DType y_dtype, int64_t n) {
  float product = 0;
  with_floats(x_dtype, x, [&](const auto* a) {
    with_floats(y_dtype, y, [&](const auto* b) {
      Vec sums = zero();
      for_row(n, [&](int64_t i, auto... tail) {
        sums = fma(load(a + i, tail...), load(b + i, tail...), sums);
      });
      product = sum(sums);
    });
  });
  return product;
}

}  // namespace

const ExpertRowsKernels& expert_rows_kernels() {
  static constexpr ExpertRowsKernels kKernels{combine, spread, dot};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
