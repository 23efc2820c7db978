#pragma once
// Rounding of a double to a format narrower than FP32 in one step. A double that is rounded to
// nearest in FP32 and then again may end one step off; rounded to odd first, it cannot (Boldo and
// Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
// odd"): FP32 has more than two bits beyond the formats below it.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace viaduct {

/// `value` in FP32, rounded to odd: exact if possible, else the neighbour whose last bit is one.
/// Finite values stay finite. A conversion of the result to bf16, f16 or an FP8 format gives what a
/// conversion of `value` itself would.
inline float rounded_to_odd(double value) {
  if (std::fabs(value) > std::numeric_limits<float>::max() && std::isfinite(value))
    return std::copysign(std::numeric_limits<float>::max(), static_cast<float>(value));
  auto rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || std::isnan(value)) return rounded;
  auto bits = std::bit_cast<uint32_t>(rounded);
  // Towards zero, then to the odd neighbour: of a value and its bits, magnitudes order alike.
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace viaduct
