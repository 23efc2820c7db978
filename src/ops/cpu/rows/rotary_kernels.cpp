// instruction sets: portable avx2 avx512 avx512_bf16
// Kernels of the rotary position embedding, compiled per instruction set.

#include <vector>

#include "ops/cpu/rows/rotary_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// (a, b) → (a c − b s, b c + a s), or the inverse.
template <bool kInverse, class T, class... Tail>
inline void rotate_pairs(T* x, const float* cos, const float* sin, int64_t half, int64_t i,
                         Tail... tail) {
  const Vec a = load(x + i, tail...), b = load(x + half + i, tail...);
  const Vec c = load(cos + i, tail...), s = load(sin + i, tail...);
  if constexpr (kInverse) {
    store(x + i, fma(b, s, mul(a, c)), tail...);
    store(x + half + i, fnma(a, s, mul(b, c)), tail...);
  } else {
    store(x + i, fnma(b, s, mul(a, c)), tail...);
    store(x + half + i, fma(a, s, mul(b, c)), tail...);
  }
}

template <bool kInverse, class T>
void rotate_all(const RotaryRows& rows, int64_t begin, int64_t end) {
  const int64_t half = rows.half;
  for (int64_t t = begin; t < end; ++t) {
    const float *cos = rows.cos + rows.positions[t] * half,
                *sin = rows.sin + rows.positions[t] * half;
    char* head = rows.x.data + t * rows.x.outer_stride;
    for (int64_t n = 0; n < rows.heads; ++n, head += rows.x.inner_stride) {
      T* x = reinterpret_cast<T*>(head);
      for_row(half, [&](int64_t i, auto... tail) {
        rotate_pairs<kInverse>(x, cos, sin, half, i, tail...);
      });
    }
  }
}

/// Swaps each pair of neighbouring lanes.
inline Vec swap_neighbours(Vec v) {
#if defined(VIADUCT_PORTABLE)
  const FourInts swapped{1, 0, 3, 2};
  return {__builtin_shuffle(v.low, swapped), __builtin_shuffle(v.high, swapped)};
#elif defined(__AVX512F__)
  return _mm512_permute_ps(v, 0xB1);
#else
  return _mm256_permute_ps(v, 0xB1);
#endif
}

/// Pairs of neighbours: x · cos + swapped x · (−sin, sin), with the factors of a token expanded to
/// its pairs once for all heads.
template <class T>
void rotate_neighbours(const RotaryRows& rows, int64_t begin, int64_t end) {
  const int64_t half = rows.half;
  std::vector<float> spread(static_cast<size_t>(4 * half));
  float *cos = spread.data(), *sin = cos + 2 * half;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t at = rows.positions[t] * half;
    for (int64_t i = 0; i < half; ++i) {
      const float s = rows.inverse ? -rows.sin[at + i] : rows.sin[at + i];
      cos[2 * i] = cos[2 * i + 1] = rows.cos[at + i];
      sin[2 * i] = -s;
      sin[2 * i + 1] = s;
    }
    char* head = rows.x.data + t * rows.x.outer_stride;
    for (int64_t n = 0; n < rows.heads; ++n, head += rows.x.inner_stride) {
      T* x = reinterpret_cast<T*>(head);
      for_row(2 * half, [&](int64_t i, auto... tail) {
        const Vec v = load(x + i, tail...);
        store(x + i,
              fma(swap_neighbours(v), load(sin + i, tail...), mul(v, load(cos + i, tail...))),
              tail...);
      });
    }
  }
}

template <class T>
void rotate_tokens(const RotaryRows& rows, int64_t begin, int64_t end) {
  if (rows.interleaved) return rotate_neighbours<T>(rows, begin, end);
  rows.inverse ? rotate_all<true, T>(rows, begin, end) : rotate_all<false, T>(rows, begin, end);
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
