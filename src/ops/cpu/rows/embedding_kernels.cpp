// instruction sets: portable avx2 avx512
// One row of a look-up, or of its gradient. Compiled per instruction set (see simd.h).

#include "ops/cpu/rows/embedding_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

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

/// A token that occurs often is summed in two levels of blocks: no sum is longer than kBlock, plus
/// one term for every kBlock² tokens.
void scatter(const void* d_out, DType dtype, int64_t stride, const int32_t* tokens, int64_t count,
             int64_t n, float scale, float* d_row) {
  constexpr int64_t kBlock = 32;
  with_floats(dtype, d_out, [=](const auto* from) {
    const Vec factor = set1(scale);
    for_row(n, [&](int64_t i, auto... tail) {
      Vec all = zero(), blocks = zero(), block = zero();
      for (int64_t t = 0; t < count; ++t) {
        block = add(block, load(from + tokens[t] * stride + i, tail...));
        if (t % kBlock != kBlock - 1) continue;
        blocks = add(blocks, block);
        block = zero();
        if (t % (kBlock * kBlock) != kBlock * kBlock - 1) continue;
        all = add(all, blocks);
        blocks = zero();
      }
      all = add(all, add(blocks, block));
      store(d_row + i, fma(factor, all, load(d_row + i, tail...)), tail...);
    });
  });
}

}  // namespace

const EmbeddingKernels& embedding_kernels() {
  static constexpr EmbeddingKernels kKernels{gather, scatter};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
