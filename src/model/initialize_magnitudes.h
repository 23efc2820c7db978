#pragma once
// Magnitudes of adapters (nn/low_rank.h) begin as the norms of the rows of their weights, so that
// with B = 0 the model is as it was.

#include "nn/context.h"
#include "sharding/parameter_store.h"

namespace viaduct {

/// Fills the masters of all magnitudes and publishes the weights; nothing happens where there are
/// none. The frozen weights are complete. All ranks of a stage call this.
void initialize_magnitudes(RankContext& context, ParameterStore& store);

}  // namespace viaduct
