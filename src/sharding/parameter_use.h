#pragma once
// A layer's use of a parameter; a parameter store is made from these.

#include "nn/parameter.h"

namespace viaduct {

/// A backward of the layer contributes to the gradient once.
struct ParameterUse {
  ParameterUse(const Parameter* used, int number = 0)  // NOLINT: many callers have one layer
      : parameter(used), layer(number) {}

  const Parameter* parameter;
  int layer;  // of the chunk, ascending: the unit of sharded gradients and weights
};

}  // namespace viaduct
