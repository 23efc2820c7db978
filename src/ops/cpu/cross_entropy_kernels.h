#pragma once
// One row of softmax cross entropy. Compiled per instruction set (see simd.h).

#include "ops/cpu/cross_entropy_entry.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/simd_exp2.h"
#include "ops/cpu/simd_rows.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr float kLowest = -3.4028234663852886e38f;
// Columns whose values stay in the first-level cache between the maximum and the sum over them.
constexpr int64_t kBlock = 1024;

/// e^x where an error relative to the largest x that matters is small enough: of a sum whose
/// largest term is e^0, or rounded to 16 bits. Relative error 1e-7 (1 + |x|).
inline Vec short_exp(Vec x) {
  const Vec t = mul(x, set1(1.44269504088896341f));
  return exp2_short(minimum(set1(128.5f), maximum(set1(-150.0f), t)));
}

template <bool kCapped>
Vec cap(Vec z, Vec softcap, Vec inverse) {
  if constexpr (kCapped) return mul(softcap, tanh(mul(z, inverse)));
  return z;
}

/// Blocks of columns, each read twice from the cache: its maximum, then the sum of exponentials
/// against the largest value so far (Milakov and Gimelshein 2018, online softmax, block by block).
template <bool kCapped, class In>
void row_sum_of(const In* z, int64_t columns, float softcap, float* largest_out, float* sum_out) {
  const Vec vcap = set1(softcap), inverse = set1(kCapped ? 1.0f / softcap : 0.0f);
  // What the second pass reads: the row itself where nothing is to be done to its elements.
  constexpr bool kInPlace = !kCapped && sizeof(In) == sizeof(float);
  float values[kInPlace ? 1 : kBlock];
  float greatest = kLowest, sum_so_far = 0;
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
    Vec s = zero();
    for_row(n, [&](int64_t i, auto... tail) {
      const Vec e = short_exp(sub(load(again + i, tail...), shift));
      if constexpr (sizeof...(tail) > 0) {
        s = add(s, select(tail..., e, zero()));
      } else {
        s = add(s, e);
      }
    });
    float rescale[kLanes];
    store(rescale, exp(sub(set1(previous), shift)));
    sum_so_far = sum_so_far * (begin > 0 ? rescale[0] : 0.0f) + sum(s);
  }
  *largest_out = greatest;
  *sum_out = sum_so_far;
}

void row_sum(const void* z, DType z_dtype, int64_t columns, float softcap, float* largest_out,
             float* sum_out) {
  with_floats(z_dtype, z, [=](const auto* in) {
    softcap > 0 ? row_sum_of<true>(in, columns, softcap, largest_out, sum_out)
                : row_sum_of<false>(in, columns, softcap, largest_out, sum_out);
  });
}

float capped(float z, float softcap) {
  if (!(softcap > 0)) return z;
  float out[kLanes];
  store(out, cap<true>(set1(z), set1(softcap), set1(1.0f / softcap)));
  return out[0];
}

template <bool kCapped, bool kShort>
Vec gradient(Vec z, Vec lse, Vec scale, Vec onehot, Vec softcap, Vec inverse) {
  Vec slope = scale;
  if constexpr (kCapped) {
    const Vec t = tanh(mul(z, inverse));
    z = mul(softcap, t);
    slope = mul(scale, fnma(t, t, set1(1.0f)));
  }
  const Vec log_p = sub(z, lse);
  return mul(slope, sub(kShort ? short_exp(log_p) : exp(log_p), onehot));
}

template <bool kCapped, class In, class T>
void row_gradient_of(const In* z, int64_t columns, int64_t width, float lse, float scale,
                     int64_t target, float softcap, T* out) {
  const Vec vlse = set1(lse), vscale = set1(scale), vcap = set1(softcap);
  const Vec inverse = set1(kCapped ? 1.0f / softcap : 0.0f);
  constexpr bool kShort = sizeof(T) == 2;
  // Before out, which may be z.
  const Vec at_target = target >= 0 ? load(z + target, first(1)) : zero();
  for_row(columns, [&](int64_t i, auto... tail) {
    store(out + i,
          gradient<kCapped, kShort>(load(z + i, tail...), vlse, vscale, zero(), vcap, inverse),
          tail...);
  });
  if (target >= 0) {
    store(out + target,
          gradient<kCapped, kShort>(at_target, vlse, vscale, set1(1.0f), vcap, inverse), first(1));
  }
  for_row(width - columns,
          [&](int64_t i, auto... tail) { store(out + columns + i, zero(), tail...); });
}

void row_gradient(const void* z, DType z_dtype, int64_t columns, int64_t width, float lse,
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
