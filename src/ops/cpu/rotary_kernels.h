// Kernels of the rotary position embedding, compiled per instruction set.

#include "ops/cpu/rotary_rows.h"
#include "ops/cpu/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

template <class T>
void rotate_head(T* x, const float* cos, const float* sin, int64_t half, Vec sign) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Vec a = load(x + i), b = load(x + half + i);
    const Vec c = load(cos + i), s = mul(sign, load(sin + i));
    store(x + i, fnma(b, s, mul(a, c)));
    store(x + half + i, fma(a, s, mul(b, c)));
  }
  if (i < half) {
    const Mask k = first(half - i);
    const Vec a = load(x + i, k), b = load(x + half + i, k);
    const Vec c = load(cos + i, k), s = mul(sign, load(sin + i, k));
    store(x + i, fnma(b, s, mul(a, c)), k);
    store(x + half + i, fma(a, s, mul(b, c)), k);
  }
}

template <class T>
void rotate_tokens(const RotaryRows& rows, int64_t begin, int64_t end) {
  const Vec sign = set1(rows.inverse ? -1.0f : 1.0f);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t offset = rows.positions[t] * rows.half;
    for (int64_t n = 0; n < rows.heads; ++n) {
      rotate_head(reinterpret_cast<T*>(rows.x.row(t * rows.heads + n)), rows.cos + offset,
                  rows.sin + offset, rows.half, sign);
    }
  }
}

void rotate(const RotaryRows& rows, int64_t begin, int64_t end) {
  switch (rows.x.dtype) {
    case DType::bf16:
      return rotate_tokens<bfloat16>(rows, begin, end);
    case DType::f16:
      return rotate_tokens<float16>(rows, begin, end);
    default:
      return rotate_tokens<float>(rows, begin, end);
  }
}

}  // namespace

const RotaryKernels rotary_kernels{rotate};

}  // namespace viaduct::cpu::VIADUCT_ISA
