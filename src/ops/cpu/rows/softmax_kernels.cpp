// instruction sets: portable avx2 avx512
// The steps of a softmax over one row. Compiled per instruction set (see simd.h).

#include "ops/cpu/rows/softmax_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

float row_largest(const float* x, int64_t n) {
  Vec best = set1(x[0]);
  for_row(n, [&](int64_t i, auto... tail) {
    const Vec v = load(x + i, tail...);
    if constexpr (sizeof...(tail) > 0) {
      best = select(tail..., maximum(best, v), best);
    } else {
      best = maximum(best, v);
    }
  });
  return largest(best);
}

float row_sum(const float* x, int64_t n) {
  Vec total = zero();
  for_row(n, [&](int64_t i, auto... tail) { total = add(total, load(x + i, tail...)); });
  return sum(total);
}

/// out = f(x).
template <class F>
void map_each(const float* x, float* out, int64_t n, const F& f) {
  for_row(n, [&](int64_t i, auto... tail) { store(out + i, f(load(x + i, tail...)), tail...); });
}

void map_row(RowMap map, const float* x, const RowNumbers& numbers, float* out, int64_t n) {
  const Vec number = set1(numbers.number);
  switch (map) {
    case RowMap::soft_cap: {
      const Vec inverse = set1(1.0f / numbers.number);
      return map_each(x, out, n, [&](Vec v) { return mul(number, tanh(mul(v, inverse))); });
    }
    case RowMap::soft_cap_backward: {
      const Vec inverse = set1(1.0f / numbers.number), one = set1(1.0f);
      return for_row(n, [&](int64_t i, auto... tail) {
        const Vec u = mul(load(numbers.by + i, tail...), inverse);
        store(out + i, mul(load(x + i, tail...), fnma(u, u, one)), tail...);
      });
    }
    case RowMap::exponential:
      return map_each(x, out, n, [&](Vec v) { return exp(sub(v, number)); });
    case RowMap::divide:
      return map_each(x, out, n, [&](Vec v) { return div(v, number); });
    case RowMap::loss_backward:
      return map_each(x, out, n, [&](Vec v) { return mul(number, v); });
  }
}

}  // namespace

const SoftmaxKernels softmax_kernels{row_largest, row_sum, map_row};

}  // namespace viaduct::cpu::VIADUCT_ISA
