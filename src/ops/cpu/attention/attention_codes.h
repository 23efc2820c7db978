#pragma once
// Attention on codes of FP8: elements of q, k, v and d_out, and the rounding of probabilities and
// of gradients of scores. Compiled per instruction set.

#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_codes.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Elements of q, k, v and d_out that are codes.
struct E4m3 : E4m3Bits {
  uint8_t code;
};
struct E5m2 : E5m2Bits {
  uint8_t code;
};

template <class T>
inline constexpr bool kIsCode = false;
template <>
inline constexpr bool kIsCode<E4m3> = true;
template <>
inline constexpr bool kIsCode<E5m2> = true;

/// to[i] = factor · from[i] in f32.
template <class T>
inline void widen(const T* from, float factor, int64_t size, float* to) requires kIsCode<T> {
  for (int64_t i = 0; i < size; ++i) to[i] = factor * T::decode(from[i].code);
}

/// The logarithm of the smallest power of two that is at least e^x.
inline float power_above(float x) {
  constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;
  return __builtin_ceilf(x * kLog2E) * kLn2;
}
inline Vec powers_above(Vec x) {
  alignas(64) float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) lanes[i] = power_above(lanes[i]);
  return load(lanes);
}

/// Rounds values [lines][kAttentionRows], times `factor`, to the numbers of codes.
template <class Code>
inline void round_to_codes(float* values, int64_t lines, int64_t count, float factor) {
  for (int64_t j = 0; j < lines; ++j) {
    float* line = values + j * kAttentionRows;
    for (int64_t r = 0; r < count; ++r) line[r] = Code::decode(Code::encode(line[r] * factor));
  }
}

/// values[i] *= factor.
inline void scale_lines(int64_t count, float factor, float* values) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
