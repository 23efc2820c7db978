#pragma once
// Rules over fields of several folders.

#include "config/problems.h"
#include "train/run_config.h"

namespace viaduct {

/// Adds what is wrong with the combination of settings; `outcome` tells given values from defaults.
/// Rules about values that are still `auto` are left to `resolve`.
void validate(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems);

}  // namespace viaduct
