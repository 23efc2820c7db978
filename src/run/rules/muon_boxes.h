#pragma once
// Which matrices Muon can make whole of what tensor ranks hold of them.

#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct {

/// A problem where the boxes that tensor ranks hold of a matrix that Muon moves have not the same
/// places on each rank. Nothing is known of settings that are still `auto`, and of adapters before
/// they are resolved (run/adapter_setup.h).
void validate_muon_boxes(const RunConfig& config, Problems& problems);

}  // namespace viaduct
