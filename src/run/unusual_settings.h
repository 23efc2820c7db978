#pragma once
// Settings that are legal and that hardly anyone means: a run warns of them at its start.

#include <string>
#include <vector>

#include "run/run_config.h"

namespace viaduct {

/// A line for each; `config` is resolved.
std::vector<std::string> unusual_settings(const RunConfig& config);

}  // namespace viaduct
