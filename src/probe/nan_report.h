#pragma once
// The origin of a NaN: the first tensor, in the order of computation, that is not finite.

#include <string>

#include "engine/engine.h"

namespace viaduct {

/// Checks the weights, then the residual stream after each layer for `batch`, then the main
/// gradients from the last layer to the first. "weight blocks.3.mlp.down.weight", "output of
/// layer3", "gradient of head.weight", or "" if all are finite.
std::string first_nonfinite(Engine& engine, const HostBatch& batch);

}  // namespace viaduct
