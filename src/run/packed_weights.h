#pragma once
// Resolution of model.packed_weights for a run's machine and sizes.

#include "run/run_config.h"

namespace viaduct {

/// Whether GEMMs of the run's instruction set and recipe read weights as tiles.
bool reads_tiles(const RunConfig& config);

/// Replaces its `auto`. Sizes are those of `resolve_parallel`.
void resolve_packed_weights(RunConfig& config);

void validate_packed_weights(const RunConfig& config, Problems& problems);

}  // namespace viaduct
