#pragma once
// Elements and scales of quantized operands, in exact host code.
//
//   e4m3   sign, 4 exponent bits, 3 mantissa bits; ±448 at most, no infinity, one NaN
//   e5m2   sign, 5 exponent bits, 2 mantissa bits; ±57344 at most, infinity and NaN as IEEE 754
//   e8m0   2^(bits − 127); 255 is NaN
//
// (e4m3 and e5m2: Micikevicius et al. 2022, "FP8 formats for deep learning", table 1; e8m0: OCP
// Microscaling Formats 1.0, section 5.4.1.) Conversions from float round to nearest even and
// saturate: values beyond the largest number, infinity included, become the largest number.

#include <algorithm>
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
    int exponent = -127;
    if (value > 0) {
      const double fraction = std::frexp(static_cast<double>(value), &exponent);  // in [1/2, 1)
      if (fraction == 0.5) --exponent;
    }
    result.bits = static_cast<uint8_t>(std::clamp(exponent, -127, 127) + 127);
    return result;
  }
  explicit operator float() const {
    return bits == 255 ? std::numeric_limits<float>::quiet_NaN()
                       : std::ldexp(1.0f, static_cast<int>(bits) - 127);
  }
};

template <>
inline constexpr DType dtype_of<float8_e4m3> = DType::e4m3;
template <>
inline constexpr DType dtype_of<float8_e5m2> = DType::e5m2;
template <>
inline constexpr DType dtype_of<float8_e8m0> = DType::e8m0;

}  // namespace viaduct
