#pragma once
// Initial weights, independent of the layout: each element is a function of (seed, logical tensor,
// index in it).

#include "sharding/parameter_store.h"

namespace viaduct {

/// Fills the masters of those parameters that are `wanted` (all: `every_parameter`) and publishes
/// the weights.
inline bool every_parameter(const Parameter&) {
  return true;
}
inline bool is_trained(const Parameter& parameter) {
  return parameter.trained;
}
inline bool is_adapter(const Parameter& parameter) {
  return parameter.adapter;
}
void initialize_parameters(OpContext& context, ParameterStore& store, uint64_t seed,
                           bool (*wanted)(const Parameter&) = every_parameter);

}  // namespace viaduct
