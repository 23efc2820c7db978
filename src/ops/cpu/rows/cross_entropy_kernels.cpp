// instruction sets: portable avx2 avx512 avx512_bf16
// One row of softmax cross entropy. Compiled per instruction set (see simd.h).

#include "ops/cpu/rows/cross_entropy_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_exp2.h"
#include "ops/cpu/simd/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr float kLowest = -3.4028234663852886e38f;
// Columns whose values stay in the L1 cache between their maximum and their sum.
constexpr int64_t kBlock = 1024;

/// e^x for values read from or rounded to 16 bits. Relative error 1e-7 (1 + |x|).
inline Vec short_exp(Vec x) {
  const Vec t = mul(x, set1(1.44269504088896341f));
  return exp2_short(minimum(set1(128.5f), maximum(set1(-150.0f), t)));
}

template <bool kCapped>
Vec cap(Vec z, Vec softcap, Vec inverse) {
  if constexpr (kCapped) return mul(softcap, tanh(mul(z, inverse)));
  return z;
}

/// Zero beyond the row.
Vec in_row(Vec v) {
  return v;
}
Vec in_row(Vec v, Mask tail) {
  return select(tail, v, zero());
}

/// Blocks of columns, each read twice from the cache: its maximum, then the sum of exponentials
/// against the largest value so far (Milakov and Gimelshein 2018, online softmax, block by block).
template <bool kCapped, class In>
void row_sum_of(const In* z, int64_t columns, float softcap, float* largest_out, double* sum_out) {
  const Vec vcap = set1(softcap), inverse = set1(kCapped ? 1.0f / softcap : 0.0f);
  // The second pass reads the row itself if its elements need no conversion.
  constexpr bool kInPlace = !kCapped && sizeof(In) == sizeof(float);
  constexpr bool kShort = sizeof(In) == 2;
  float values[kInPlace ? 1 : kBlock];
  float greatest = kLowest;
  double sum_so_far = 0;
  for (int64_t begin = 0; begin < columns; begin += kBlock) {
    const int64_t n = columns - begin < kBlock ? columns - begin : kBlock;
    const In* const in = z + begin;
    const float* again = values;
    if constexpr (kInPlace) again = in;
    Vec block_largest = set1(kLowest);
    for_row(n, [&](int64_t i, auto... tail) {
      const Vec v = cap<kCapped>(load(in + i, tail...), vcap, inverse);
      if constexpr (!kInPlace) store(values + i, v, tail...);
      if constexpr (sizeof...(tail) > 0) {
        block_largest = select(tail..., maximum(block_largest, v), block_largest);
      } else {
        block_largest = maximum(block_largest, v);
      }
    });
    const float previous = greatest, here = largest(block_largest);
    greatest = here > previous ? here : previous;
    const Vec shift = set1(greatest);
    Vec s = zero(), tops = zero();
    for_row(n, [&](int64_t i, auto... tail) {
      const Vec below = sub(load(again + i, tail...), shift);
      if constexpr (kShort) {
        s = add(s, in_row(short_exp(below), tail...));
      } else {
        // The largest is added separately: next to its 1, small terms would lose digits.
        const Mask top = less(set1(-1e-30f), below);
        s = add(s, in_row(select(top, zero(), exp(below)), tail...));
        tops = add(tops, in_row(select(top, set1(1.0f), zero()), tail...));
      }
    });
    if (begin > 0 && greatest > previous) {
      sum_so_far *= __builtin_exp(static_cast<double>(previous) - static_cast<double>(greatest));
    }
    sum_so_far += static_cast<double>(sum(tops)) + static_cast<double>(sum(s));
  }
  *largest_out = greatest;
  *sum_out = sum_so_far;
}

void row_sum(const void* z, DType z_dtype, int64_t columns, float softcap, float* largest_out,
             double* sum_out) {
  with_floats(z_dtype, z, [=](const auto* in) {
    softcap > 0 ? row_sum_of<true>(in, columns, softcap, largest_out, sum_out)
                : row_sum_of<false>(in, columns, softcap, largest_out, sum_out);
  });
}

float lane(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  return lanes[0];
}

float capped(float z, float softcap) {
  if (!(softcap > 0)) return z;
  return lane(cap<true>(set1(z), set1(softcap), set1(1.0f / softcap)));
}

/// scale · exp(z − lse) · dsoftcap, lse in two parts.
template <bool kCapped, bool kShort>
Vec gradient(Vec z, Vec lse, Vec lse_rest, Vec scale, Vec softcap, Vec inverse) {
  Vec slope = scale;
  if constexpr (kCapped) {
    const Vec t = tanh(mul(z, inverse));
    z = mul(softcap, t);
    slope = mul(scale, fnma(t, t, set1(1.0f)));
  }
  const Vec log_p = sub(sub(z, lse), lse_rest);
  return mul(slope, kShort ? short_exp(log_p) : exp(log_p));
}

template <bool kCapped, class In, class T>
void row_gradient_of(const In* z, int64_t columns, int64_t width, double lse, float scale,
                     int64_t target, float softcap, T* out) {
  // In FP32 the rounding of lse alone would be an error of half a unit in the last place in every
  // exponent: 4e-6 of each probability at 100.
  const auto high = static_cast<float>(lse);
  const Vec rest = set1(static_cast<float>(lse - static_cast<double>(high)));
  const Vec vlse = set1(high), vscale = set1(scale), vcap = set1(softcap);
  const Vec inverse = set1(kCapped ? 1.0f / softcap : 0.0f);
  constexpr bool kShort = sizeof(T) == 2;
  // Before out, which may be z.
  const Vec at_target = target >= 0 ? load(z + target, first(1)) : zero();
  for_row(columns, [&](int64_t i, auto... tail) {
    store(out + i,
          gradient<kCapped, kShort>(load(z + i, tail...), vlse, rest, vscale, vcap, inverse),
          tail...);
  });
  if (target >= 0) {
    // p − 1 of a token with p near 1 is small: exp(…) − 1 would have cancelled it.
    const Vec t = kCapped ? tanh(mul(at_target, inverse)) : zero();
    const Vec slope = kCapped ? mul(vscale, fnma(t, t, set1(1.0f))) : vscale;
    const double log_p = static_cast<double>(lane(kCapped ? mul(vcap, t) : at_target)) - lse;
    const auto missing = static_cast<float>(__builtin_expm1(log_p));
    store(out + target, mul(slope, set1(missing)), first(1));
  }
  for_row(width - columns,
          [&](int64_t i, auto... tail) { store(out + columns + i, zero(), tail...); });
}

void row_gradient(const void* z, DType z_dtype, int64_t columns, int64_t width, double lse,
                  float scale, int64_t target, float softcap, void* out, DType out_dtype) {
  with_floats(z_dtype, z, [=](const auto* in) {
    with_floats(out_dtype, out, [=](auto* to) {
      softcap > 0 ? row_gradient_of<true>(in, columns, width, lse, scale, target, softcap, to)
                  : row_gradient_of<false>(in, columns, width, lse, scale, target, softcap, to);
    });
  });
}

}  // namespace

const CrossEntropyKernels& cross_entropy_kernels() {
  static constexpr CrossEntropyKernels kKernels{row_sum, capped, row_gradient};
  return kKernels;
}

}  // namespace viaduct::cpu::VIADUCT_ISA
