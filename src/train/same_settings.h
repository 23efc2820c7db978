#pragma once
// Ranks that are processes read their configuration each for itself.

#include "comm/host_group.h"
#include "train/run_config.h"

namespace viaduct {

/// Throws the same ConfigError on all ranks if one of them has a setting that rank 0 has not: each
/// setting with both values, of the lowest rank that differs. Threads of a rank may differ. All
/// ranks call it, before anything is allocated.
void check_same_settings(HostGroup& host, const RunConfig& config);

}  // namespace viaduct
