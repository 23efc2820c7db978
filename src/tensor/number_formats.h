#pragma once
// Elements and scales of quantized operands, in exact host code.
//
//   e4m3   sign, 4 exponent bits, 3 mantissa bits; ±448 at most, no infinity, one NaN
//   e5m2   sign, 5 exponent bits, 2 mantissa bits; ±57344 at most, infinity and NaN as IEEE 754
//   e8m0   2^(bits − 127); 255 is NaN
//   e2m1   sign, 2 exponent bits, 1 mantissa bit; ±6 at most, no infinity, no NaN. Two in a byte:
//          the element with the even index is the lower half (dtype e2m1x2)
//
// (e4m3 and e5m2: Micikevicius et al. 2022, "FP8 formats for deep learning", table 1; e8m0: OCP
// Microscaling Formats 1.0, section 5.4.1; e2m1: section 5.3.3.) Conversions from float round to
// nearest even and saturate: values beyond the largest number, infinity included, become the
// largest number.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace viaduct {
namespace detail {

/// A sign, and `kMantissa` bits below an exponent that is at least `kSmallest`. Codes from
/// `kFirstNan` on are NaN; codes between the largest number and `kFirstNan` are infinity.
template <int kMantissa, int kSmallest, uint8_t kLargest, uint8_t kFirstNan>
struct Float8 {
  static uint8_t encode(float value) {
    const uint8_t sign = std::signbit(value) ? 0x80 : 0;
    if (std::isnan(value)) return sign | 0x7f;
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude >= decode(kLargest)) return sign | kLargest;
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), kSmallest);
    const double steps = std::ldexp(magnitude, kMantissa - exponent);  // exact
    auto whole = static_cast<int>(steps);
    const double rest = steps - whole;
    if (rest > 0.5 || (rest == 0.5 && whole % 2 == 1)) ++whole;
    // A subnormal has no implied bit; a carry increments the exponent.
    const int code = ((exponent - kSmallest) << kMantissa) + whole;
    return sign | static_cast<uint8_t>(std::min<int>(code, kLargest));
  }
  static float decode(uint8_t bits) {
    const int code = bits & 0x7f, exponent = code >> kMantissa;
    const int mantissa = code & ((1 << kMantissa) - 1), implied = exponent > 0 ? 1 << kMantissa : 0;
    float value = std::ldexp(static_cast<float>(implied + mantissa),
                             std::max(exponent - 1, 0) + kSmallest - kMantissa);
    if (code > kLargest) {
      value = code < kFirstNan ? std::numeric_limits<float>::infinity()
                               : std::numeric_limits<float>::quiet_NaN();
    }
    return bits & 0x80 ? -value : value;
  }
};

}  // namespace detail

struct float8_e4m3 {
  using Codes = detail::Float8<3, -6, 0x7e, 0x7f>;
  uint8_t bits;
  float8_e4m3() = default;
  explicit float8_e4m3(float value) : bits(Codes::encode(value)) {}
  explicit operator float() const { return Codes::decode(bits); }
};

struct float8_e5m2 {
  using Codes = detail::Float8<2, -14, 0x7b, 0x7d>;
  uint8_t bits;
  float8_e5m2() = default;
  explicit float8_e5m2(float value) : bits(Codes::encode(value)) {}
  explicit operator float() const { return Codes::decode(bits); }
};

/// A positive power of two.
struct float8_e8m0 {
  uint8_t bits;
  float8_e8m0() = default;
  /// The smallest power of two that is at least `value`; 2^-127 … 2^127. NaN for NaN and infinity.
  static float8_e8m0 not_below(float value) {
    float8_e8m0 result;
    result.bits = 255;
    if (!std::isfinite(value)) return result;
    const auto u = std::bit_cast<uint32_t>(value);
    const uint32_t exponent = u >> 23, mantissa = u & 0x7fffffu;
    // A subnormal is below or above 2^-127, which is mantissa 0x400000.
    const uint32_t above = mantissa > (exponent == 0 ? 0x400000u : 0u) ? 1 : 0;
    result.bits = value > 0 ? static_cast<uint8_t>(std::min(exponent + above, 254u)) : 0;
    return result;
  }
  explicit operator float() const {
    if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
    return bits == 0 ? 0x1p-127f : std::bit_cast<float>(uint32_t{bits} << 23);
  }
};

/// In the lower four bits. 0, 0.5, 1, 1.5, 2, 3, 4, 6; the fourth bit is the sign.
struct float4_e2m1 {
  uint8_t bits;
  float4_e2m1() = default;
  /// NaN becomes −0: the format has none, so a scale has to show it.
  explicit float4_e2m1(float value)
      : bits(encode(value, [](float steps) {
          return std::nearbyint(steps);  // to nearest even
        })) {}
  /// Rounded up with the probability that `value` is above its lower neighbour, in steps of 2^-16:
  /// `random` are 16 random bits. Also saturates.
  static float4_e2m1 stochastic(float value, uint16_t random) {
    float4_e2m1 result;
    result.bits = encode(value, [&](float steps) {
      return std::floor(steps + (static_cast<float>(random) + 0.5f) * 0x1p-16f);
    });
    return result;
  }
  explicit operator float() const {
    constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float magnitude = kMagnitudes[bits & 7];
    return (bits & 8) != 0 ? -magnitude : magnitude;
  }

 private:
  /// Codes are multiples of 0.5 up to 2, of 1 up to 4, of 2 up to 6: `round` gets that number.
  template <class Round>
  static uint8_t encode(float value, const Round& round) {
    if (std::isnan(value)) return 8;
    const float magnitude = std::min(std::fabs(value), 6.0f);
    const float per_step = magnitude < 2 ? 2.0f : magnitude < 4 ? 1.0f : 0.5f;
    const int first = magnitude < 2 ? 0 : magnitude < 4 ? 2 : 4;
    const int code = first + static_cast<int>(round(magnitude * per_step));
    return static_cast<uint8_t>(code | (std::signbit(value) ? 8 : 0));
  }
};

template <>
inline constexpr DType dtype_of<float8_e4m3> = DType::e4m3;
template <>
inline constexpr DType dtype_of<float8_e5m2> = DType::e5m2;
template <>
inline constexpr DType dtype_of<float8_e8m0> = DType::e8m0;

}  // namespace viaduct
