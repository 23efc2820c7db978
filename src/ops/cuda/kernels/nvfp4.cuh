#pragma once
// Codes and scales of NVFP4, as tensor/nvfp4.h and tensor/number_formats.h define them, bit for
// bit.

#include "ops/cuda/kernels/float8.cuh"

namespace viaduct::cuda {

/// amax / (448 · 6), at least 2^-126; 1 of zeros, NaN if it is not finite.
__device__ inline float matrix_scale_of(float amax) {
  if (amax == 0) return 1;
  if ((__float_as_uint(amax) & 0x7f800000u) == 0x7f800000u) return __uint_as_float(0x7fc00000u);
  const float scale = amax / (448.0f * 6.0f);
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}

/// The E4M3 code of the scale of a group with this largest magnitude.
__device__ inline uint8_t group_scale_of(float amax, float matrix_scale) {
  return encode_float8(amax / 6.0f / matrix_scale, false);
}

/// What the elements of a group with this scale are divided by.
__device__ inline float divisor_of(uint8_t code, float matrix_scale) {
  return code == 0 ? __uint_as_float(0x7f800000u) : decode_e4m3(code) * matrix_scale;
}

/// Codes are multiples of 0.5 up to 2, of 1 up to 4, of 2 up to 6; NaN is −0.
template <class Round>
__device__ uint32_t encode_e2m1(float x, Round&& round) {
  const uint32_t bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 8;
  const float least = __uint_as_float(magnitude > 0x40c00000u ? 0x40c00000u : magnitude);  // 6
  const float per_step = least < 2 ? 2.0f : least < 4 ? 1.0f : 0.5f;
  const uint32_t first = least < 2 ? 0 : least < 4 ? 2 : 4;
  return (first + round(least * per_step)) | (bits >> 28 & 8u);
}

/// To nearest even: a sum with 2^23 is a whole number in its low bits, rounded so.
__device__ inline uint32_t nearest_e2m1(float x) {
  return encode_e2m1(x, [](float steps) { return __float_as_uint(steps + 0x1p23f) & 0xfu; });
}

}  // namespace viaduct::cuda
