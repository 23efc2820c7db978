// instruction sets: portable avx2 avx512
// The steps of a softmax over one row. Compiled per instruction set (see simd.h).

#include "ops/cpu/rows/softmax_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void soft_cap(const float* x, float cap, float* out, int64_t n) {
  const Vec vcap = set1(cap), inverse = set1(1.0f / cap);
  for_row(n, [&](int64_t i, auto... tail) {
    store(out + i, mul(vcap, tanh(mul(load(x + i, tail...), inverse))), tail...);
  });
}

void soft_cap_backward(const float* d_out, const float* z, float cap, float* d_in, int64_t n) {
  const Vec inverse = set1(1.0f / cap), one = set1(1.0f);
  for_row(n, [&](int64_t i, auto... tail) {
    const Vec u = mul(load(z + i, tail...), inverse);
    store(d_in + i, mul(load(d_out + i, tail...), fnma(u, u, one)), tail...);
  });
}

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

void exponential(const float* x, float shift, float* out, int64_t n) {
  const Vec s = set1(shift);
  for_row(n, [&](int64_t i, auto... tail) {
    store(out + i, exp(sub(load(x + i, tail...), s)), tail...);
  });
}

float row_sum(const float* x, int64_t n) {
  Vec total = zero();
  for_row(n, [&](int64_t i, auto... tail) { total = add(total, load(x + i, tail...)); });
  return sum(total);
}

void divide(const float* x, float divisor, float* out, int64_t n) {
  const Vec d = set1(divisor);
  for_row(n,
          [&](int64_t i, auto... tail) { store(out + i, div(load(x + i, tail...), d), tail...); });
}

void scale(const float* x, float factor, float* out, int64_t n) {
  const Vec f = set1(factor);
  for_row(n,
          [&](int64_t i, auto... tail) { store(out + i, mul(f, load(x + i, tail...)), tail...); });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static constexpr SoftmaxKernels kKernels{
      soft_cap, soft_cap_backward, row_largest, exponential, row_sum, divide, scale};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
