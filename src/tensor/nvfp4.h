#pragma once
// Scales of NVFP4 (NVIDIA 2025, "Pretraining large language models with NVFP4", appendix B). An
// element is its code of e2m1 times the E4M3 scale of its group times the f32 scale of its matrix.
// The matrix scale is such that the largest group scale is E4M3's largest number.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/number_formats.h"

namespace viaduct {

/// Elements along the contracted dim that share a scale; also of a block that is rotated
/// (tensor/hadamard.h).
inline constexpr int64_t kNvfp4Group = 16;

/// amax / (448 · 6), at least 2^-126; 1 of zeros, NaN if `amax` is not finite.
inline float nvfp4_matrix_scale(float amax) {
  if (amax == 0) return 1;
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  return std::max(amax / (448.0f * 6.0f), std::numeric_limits<float>::min());
}

/// amax / 6 in units of the matrix scale, rounded to nearest even. It may be 0 (all elements are
/// then 0), or below amax / 6 (the largest elements are then saturated).
inline float8_e4m3 nvfp4_group_scale(float amax, float matrix_scale) {
  return float8_e4m3(amax / 6.0f / matrix_scale);
}

/// The code of a value, before rounding to e2m1: value / (scales), 0 if the group scale is 0.
inline float nvfp4_scaled(float value, float group_scale, float matrix_scale) {
  return group_scale == 0 ? std::copysign(0.0f, value) : value / (group_scale * matrix_scale);
}

}  // namespace viaduct
