#pragma once
// Scales of the operands that attention in FP8 computes itself (attention.h): probabilities, and
// the gradients of scores. They depend on no element, so each is rounded as soon as it is computed.

#include <algorithm>
#include <cmath>

#include "tensor/dtype.h"

namespace viaduct {

/// Probabilities are at most 1: in units of 2^-8 they are at most 256, in E4M3's range.
inline constexpr float kProbabilityScale = 0x1p-8f;

/// The power of two u in whose units gradients of scores are codes of e5m2. A gradient of a score
/// is p (f · d_out · v − delta) with p ≤ 1, dropout's factor f and delta a mean of such products,
/// so at most 2 f Dv · 448 v_scale · 57344 d_out_scale: u is the smallest power of two above that
/// bound / 57344. E5M2 has 30 powers of two of normal numbers below it. `dropout_factor`: 1 without
/// dropout. NaN if a scale is.
inline float score_gradient_scale(float v_scale, float d_out_scale, int64_t value_width,
                                  float dropout_factor, float largest_gradient_code) {
  const double bound = 2.0 * dropout_factor * static_cast<double>(value_width) * 448.0 * v_scale *
                       largest_gradient_code * d_out_scale;
  if (std::isnan(bound)) return v_scale * d_out_scale;
  const double exponent = std::ceil(std::log2(bound / 57344.0));
  return static_cast<float>(std::exp2(std::clamp(exponent, -126.0, 126.0)));
}

}  // namespace viaduct
