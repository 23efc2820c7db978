#pragma once
// Rounding of what attention on FP8 codes computes itself (ops/attention_fp8.h): probabilities, and
// gradients of scores.

#include "ops/cuda/kernels/attention_tile.cuh"

namespace viaduct::cuda {

/// Probabilities are rounded to E4M3 in units of 1 / 256.
inline constexpr float kProbabilityUnits = 256.0f;
inline constexpr float kLn2 = 0.6931471805599453f;

/// To the nearest number with `kMantissa` bits after the first, ties to even, and below 2^kLeast to
/// steps of 2^(kLeast − kMantissa). NaN stays.
template <int kMantissa, int kLeast>
__device__ float rounded_to(float x) {
  constexpr int kShift = 23 - kMantissa;
  const uint32_t u = __float_as_uint(x), magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return x;
  // The sum with a number in whose binade these steps are the last bits is rounded to them.
  constexpr uint32_t kRounder = (uint32_t{127 + 23 + kLeast - kMantissa} << 23) | 0x400000u;
  if (magnitude < (uint32_t{127 + kLeast} << 23))
    return (x + __uint_as_float(kRounder)) - __uint_as_float(kRounder);
  const uint32_t half = (1u << (kShift - 1)) - 1 + (u >> kShift & 1u);
  return __uint_as_float((u + half) & ~((1u << kShift) - 1));
}
/// For |x| ≤ 448.
__device__ inline float rounded_to_e4m3(float x) {
  return rounded_to<3, -6>(x);
}
/// For |x| ≤ 57344.
__device__ inline float rounded_to_e5m2(float x) {
  return rounded_to<2, -14>(x);
}

/// What dropout's factor multiplies before products: of codes it is 0 or 1, and the sums of
/// products are multiplied by 1 / (1 − p).
template <class T>
__device__ float kept(float factor) {
  return kCodes<T> ? (factor != 0 ? 1.0f : 0.0f) : factor;
}

}  // namespace viaduct::cuda
