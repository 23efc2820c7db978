#pragma once
// Element types of tensors and the exact conversions between the floating-point ones.

#include <bit>
#include <cstdint>
#include <string_view>

namespace viaduct {

/// The last four are formats of quantized operands (number_formats.h): FP8 elements, the exponents
/// that scale groups of them, and FP4 elements, two in a byte: tensors of e2m1x2 count bytes. No op
/// computes in them.
enum class DType : uint8_t {
  f64,
  f32,
  bf16,
  f16,
  i64,
  i32,
  i16,
  i8,
  u8,
  u16,
  e4m3,
  e5m2,
  e8m0,
  e2m1x2
};

/// Bytes of one element.
int64_t dtype_bytes(DType dtype);
/// "f32", "bf16", …
std::string_view dtype_name(DType dtype);
/// Whether it is a floating type that ops compute in.
bool is_floating(DType dtype);
/// Distance from 1 to the next larger value of a floating type (2^-7 for bf16).
double dtype_epsilon(DType dtype);

/// IEEE binary16; arithmetic happens in float.
using float16 = _Float16;

/// The upper half of an IEEE binary32; conversion from float rounds to nearest even and keeps NaN a
/// NaN.
struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

template <class T>
inline constexpr DType dtype_of = DType::u8;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<float16> = DType::f16;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::u16;

/// Calls `f(T{})` with the C++ type of a floating dtype; false if `dtype` is not floating.
template <class F>
bool dispatch_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      f(double{});
      return true;
    case DType::f32:
      f(float{});
      return true;
    case DType::bf16:
      f(bfloat16{});
      return true;
    case DType::f16:
      f(float16{});
      return true;
    default:
      return false;
  }
}

}  // namespace viaduct
