#pragma once
// Numbers of small formats as the doubles and the emulator read them, implemented independently of
// the project's (tensor/number_formats.h), so that the two are compared.

#include <cmath>
#include <cstdint>
#include <limits>

namespace cuda_host {

/// A number of `exponent_bits` and `mantissa_bits` without infinity.
inline float small_float(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  const unsigned exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (exponent_bits + mantissa_bits) & 1u) != 0;
  const float fraction = std::ldexp(static_cast<float>(mantissa), -mantissa_bits);
  const float magnitude = exponent == 0
                              ? std::ldexp(fraction, 1 - bias)
                              : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -magnitude : magnitude;
}

inline float e4m3_value(uint8_t code) {
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  return small_float(code, 4, 3, 7);
}

inline float e5m2_value(uint8_t code) {
  if ((code & 0x7f) > 0x7c) return std::numeric_limits<float>::quiet_NaN();
  if ((code & 0x7f) == 0x7c) return (code & 0x80) != 0 ? -INFINITY : INFINITY;
  return small_float(code, 5, 2, 15);
}

}  // namespace cuda_host
