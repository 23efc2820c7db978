#pragma once
// The temperature of attention in layers without rotary positions: queries are scaled by their
// position, because scores that know no positions would spread over ever more keys.

#include "nn/rotary_table.h"

namespace viaduct {

/// At position p the factor is 1 + scale · ln(1 + ⌊(p + 1) / length⌋) (Llama 4, after Nakanishi
/// 2025, arXiv 2501.19399).
struct NoRopeTemperature {
  double scale = 0;  // 0: queries are not scaled
  int64_t length = 1;

  bool any() const { return scale != 0; }
  double at(int64_t position) const;
  bool operator==(const NoRopeTemperature&) const = default;
};

/// The factors as a table that turns no pair, for heads of `width` dims: cos is the factor, sin 0.
/// ShapeError for an odd width.
RotaryTable make_temperature_table(Device& device, const NoRopeTemperature& temperature,
                                   int64_t width, int64_t positions, DType dtype);

}  // namespace viaduct
