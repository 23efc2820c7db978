#pragma once
// Codes of FP8 elements and of scales, as tensor/number_formats.h and tensor/operand_scale.h define
// them, bit for bit.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

/// Rounds to nearest even; values beyond the largest number become it, NaN stays NaN. kBias is
/// the exponent's.
template <int kMantissa, int kBias, uint32_t kLargest>
__device__ uint8_t encode_float8(float x) {
  constexpr int kShift = 23 - kMantissa;
  constexpr uint32_t kSmallestNormal = uint32_t{128 - kBias} << 23;
  // Smaller numbers in steps of the smallest one: the sum with this power of two is rounded to
  // them.
  constexpr uint32_t kRounder = uint32_t{127 + 24 - kBias - kMantissa} << 23;
  const uint32_t u = __float_as_uint(x), magnitude = u & 0x7fffffffu;
  const uint32_t half = (1u << (kShift - 1)) - 1;
  uint32_t code = ((magnitude + half + (magnitude >> kShift & 1u)) >> kShift) -
                  (uint32_t{127 - kBias} << kMantissa);
  if (magnitude < kSmallestNormal)
    code = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kRounder)) - kRounder;
  if (code > kLargest) code = kLargest;
  if (magnitude > 0x7f800000u) code = 0x7f;
  return static_cast<uint8_t>(code | (u >> 24 & 0x80u));
}

__device__ inline uint8_t encode_float8(float x, bool e5m2) {
  return e5m2 ? encode_float8<2, 15, 0x7b>(x) : encode_float8<3, 7, 0x7e>(x);
}

/// The same of N elements, a multiple of 4. NaN has the sign that products and quotients of NaN
/// have on the device: none on a GPU.
template <bool kE5m2, int N>
__device__ Run<uint32_t, N / 4> encode_run(const float (&x)[N]) {
  Run<uint32_t, N / 4> codes;
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    const float* const y = x + 4 * i;
    uint32_t& four = codes.values[i];
    if constexpr (kE5m2)
      asm("{.reg .b16 low, high;\n"
          " cvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n"
          " cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\n"
          " mov.b32 %0, {low, high};}"
          : "=r"(four)
          : "f"(y[0]), "f"(y[1]), "f"(y[2]), "f"(y[3]));
    else
      asm("{.reg .b16 low, high;\n"
          " cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
          " cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
          " mov.b32 %0, {low, high};}"
          : "=r"(four)
          : "f"(y[0]), "f"(y[1]), "f"(y[2]), "f"(y[3]));
#else
    uint32_t four = 0;
    for (int j = 0; j < 4; ++j) four |= uint32_t{encode_float8(x[4 * i + j], kE5m2)} << (8 * j);
    codes.values[i] = four;
#endif
  }
  return codes;
}

__device__ inline float decode_e4m3(uint8_t bits) {
  const uint32_t code = bits & 0x7fu;
  const uint32_t value = code == 0x7f ? 0x7fc00000u
                         : code < 8   ? __float_as_uint(static_cast<float>(code) * 0x1p-9f)
                                      : (code << 20) + (120u << 23);
  return __uint_as_float(value | (bits & 0x80u) << 24);
}

/// E5M2 has the upper bits of FP16.
__device__ inline float decode_float8(uint8_t code, bool e5m2) {
  return e5m2 ? widened(F16{static_cast<uint16_t>(code << 8)}) : decode_e4m3(code);
}

/// The code of the smallest power of two that is at least `value`; 255 for NaN and infinity.
__device__ inline uint8_t power_not_below(float value) {
  const uint32_t u = __float_as_uint(value);
  if ((u & 0x7f800000u) == 0x7f800000u) return 255;
  if (!(value > 0)) return 0;
  const uint32_t exponent = u >> 23, mantissa = u & 0x7fffffu;
  // A subnormal is below or above 2^-127, which is mantissa 0x400000.
  const uint32_t code = exponent + (mantissa > (exponent == 0 ? 0x400000u : 0u) ? 1 : 0);
  return static_cast<uint8_t>(code < 254 ? code : 254);
}
__device__ inline float power_of(uint8_t code) {
  if (code == 255) return __uint_as_float(0x7fc00000u);
  return code == 0 ? 0x1p-127f : __uint_as_float(uint32_t{code} << 23);
}

/// The scale of a group whose largest magnitude is `amax`; of a group of the matrix a power of two.
__device__ inline float scale_of(float amax, bool e5m2, bool whole_matrix) {
  if (amax == 0) return 1;
  if ((__float_as_uint(amax) & 0x7f800000u) == 0x7f800000u) return __uint_as_float(0x7fc00000u);
  const float least = amax / (e5m2 ? 57344.0f : 448.0f);
  if (whole_matrix) return least < 0x1p-126f ? 0x1p-126f : least;
  return power_of(power_not_below(least));
}

/// Writes a scale of FP32, or of e8m0 if `powers` is not null.
__device__ inline void store_scale(float* scales, uint8_t* powers, int64_t at, float scale) {
  if (powers != nullptr) {
    powers[at] = power_not_below(scale);
  } else {
    scales[at] = scale;
  }
}

}  // namespace viaduct::cuda
