#pragma once
// Rules over fields of several folders, topic by topic (rules/rules.h).

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

/// Adds problems of the combination of settings; `outcome` distinguishes given values from
/// defaults. Values that are still `auto` are checked by `resolve`.
void validate(const RunConfig& config, const ConfigOutcome& outcome, Problems& problems);

}  // namespace viaduct
