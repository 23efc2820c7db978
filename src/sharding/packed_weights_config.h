#pragma once
// Whether weights are kept as tiles beside their canonical form (section `model`).

#include "config/field.h"

namespace viaduct {

struct PackedWeightsConfig {
  /// `auto`: if several micro-batches of a step share one packing, and packing costs a noticeable
  /// part of their GEMMs (run/packed_weights.h).
  Auto<bool> packed_weights;
};

FieldGroup packed_weights_fields(PackedWeightsConfig& config);

}  // namespace viaduct
