#pragma once
// Codes of e4m3 and e5m2 (tensor/number_formats.h) without branches, for plain loops that the
// compiler turns into vectors.

#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {

constexpr uint32_t bits_of_float(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
constexpr float float_of_bits(uint32_t x) {
  return __builtin_bit_cast(float, x);
}

/// `a` if `first`, else `b`, by masks: compilers make branches of conditional expressions with
/// floating-point operations in them, and no vectors of branches.
constexpr uint32_t choose_bits(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

constexpr float decode_e4m3(uint8_t bits) {
  const uint32_t code = bits & 0x7fu;
  const float subnormal = static_cast<float>(static_cast<int32_t>(code)) * 0x1p-9f;
  const float normal = float_of_bits((code << 20) + (120u << 23));
  uint32_t value = choose_bits(code < 8, bits_of_float(subnormal), bits_of_float(normal));
  value = choose_bits(code == 0x7f, 0x7fc00000u, value);
  return float_of_bits(value | (bits & 0x80u) << 24);
}

/// Rounds to nearest even; values beyond ±448 become ±448, NaN stays NaN.
inline uint8_t encode_e4m3(float x) {
  const uint32_t u = bits_of_float(x), magnitude = u & 0x7fffffffu;
  const uint32_t normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  // Below 2^-6 in steps of 2^-9: the sum with 2^14 is rounded to these.
  const uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0x1p14f) - 0x46800000u;
  uint32_t code = choose_bits(magnitude < 0x3c800000u, subnormal, normal);
  code = code > 0x7eu ? 0x7eu : code;
  code = choose_bits(magnitude > 0x7f800000u, 0x7fu, code);
  return static_cast<uint8_t>(code | (u >> 24 & 0x80u));
}

constexpr float decode_e5m2(uint8_t bits) {
  const uint32_t code = bits & 0x7fu;
  const float subnormal = static_cast<float>(static_cast<int32_t>(code)) * 0x1p-16f;
  const float normal = float_of_bits((code << 21) + (112u << 23));
  uint32_t value = choose_bits(code < 4, bits_of_float(subnormal), bits_of_float(normal));
  value = choose_bits(code >= 0x7c, 0x7f800000u, value);
  value = choose_bits(code > 0x7c, 0x7fc00000u, value);
  return float_of_bits(value | (bits & 0x80u) << 24);
}

/// Rounds to nearest even; values beyond ±57344 become ±57344, NaN stays NaN.
inline uint8_t encode_e5m2(float x) {
  const uint32_t u = bits_of_float(x), magnitude = u & 0x7fffffffu;
  const uint32_t normal = ((magnitude + 0xfffffu + ((magnitude >> 21) & 1u)) >> 21) - (112u << 2);
  // Below 2^-14 in steps of 2^-16: the sum with 2^7 is rounded to these.
  const uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0x1p7f) - 0x43000000u;
  uint32_t code = choose_bits(magnitude < 0x38800000u, subnormal, normal);
  code = code > 0x7bu ? 0x7bu : code;
  code = choose_bits(magnitude > 0x7f800000u, 0x7fu, code);
  return static_cast<uint8_t>(code | (u >> 24 & 0x80u));
}

}  // namespace viaduct::cpu::VIADUCT_ISA
