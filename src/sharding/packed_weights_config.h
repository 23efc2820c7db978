#pragma once
// Whether weights are kept as tiles beside their canonical form (section `model`).

#include "config/field.h"

namespace viaduct {

struct PackedWeightsConfig {
  /// `auto`: where several micro-batches of a step use what is packed once, and packing costs
  /// something beside their products (train/packed_weights.h).
  Auto<bool> packed_weights;
};

FieldGroup packed_weights_fields(PackedWeightsConfig& config);

}  // namespace viaduct
