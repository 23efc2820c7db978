#pragma once
// One row of a look-up, or of its gradient. Compiled per instruction set (see simd.h).

#include "ops/cpu/embedding_entry.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void gather(const void* row, DType row_dtype, int64_t n, float scale, bool accumulate, void* out,
            DType out_dtype) {
  with_floats(out_dtype, out, [=](auto* to) {
    if (row == nullptr) {
      if (!accumulate) for_row(n, [&](int64_t i, auto... tail) { store(to + i, zero(), tail...); });
      return;
    }
    with_floats(row_dtype, row, [=](const auto* from) {
      const Vec factor = set1(scale);
      for_row(n, [&](int64_t i, auto... tail) {
        const Vec value = mul(factor, load(from + i, tail...));
        store(to + i, accumulate ? add(load(to + i, tail...), value) : value, tail...);
      });
    });
  });
}

void scatter(const void* d_out, DType dtype, int64_t n, float scale, float* d_row) {
  with_floats(dtype, d_out, [=](const auto* from) {
    const Vec factor = set1(scale);
    for_row(n, [&](int64_t i, auto... tail) {
      store(d_row + i, fma(factor, load(from + i, tail...), load(d_row + i, tail...)), tail...);
    });
  });
}

}  // namespace

const EmbeddingKernels& embedding_kernels() {
  static constexpr EmbeddingKernels kKernels{gather, scatter};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
