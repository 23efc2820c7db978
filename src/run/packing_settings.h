#pragma once
// What the fields of packed rows and conversations mean together, with Megatron-Bridge's names of
// them.

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

/// Sets what follows from the fields of `dataset.packing`: the fields that offline_packing_specs
/// names, the length of rows, the limit of conversations, and whether data sets have masks. Notes
/// say what was set, what has no effect, and what the data contradict. Called once, after reading.
void apply_packing(RunConfig& config, ConfigOutcome& outcome, Problems& problems);

/// Rules of packed rows with the layout.
void validate_packing(const RunConfig& config, Problems& problems);

/// What Megatron pads conversations to in this layout: the least common multiple of 2 · cp, if cp >
/// 1, and cp · tp with sequence parallel.
int64_t layout_multiple(const RunConfig& config);

}  // namespace viaduct
