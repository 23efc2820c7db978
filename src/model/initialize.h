#pragma once
// Initial weights, independent of the layout: each element is a function of (seed, logical tensor,
// index in it).

#include "sharding/parameter_store.h"

namespace viaduct {

/// Fills the masters of all parameters and publishes the weights.
void initialize_parameters(OpContext& context, ParameterStore& store, uint64_t seed);

}  // namespace viaduct
