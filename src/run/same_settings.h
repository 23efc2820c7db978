#pragma once
// Checks that all ranks have the same configuration: ranks in separate processes each read their
// own.

#include "comm/host_group.h"
#include "run/run_config.h"

namespace viaduct {

/// Throws the same ConfigError on all ranks if a setting of one of them differs from rank 0: each
/// setting with both values, of the lowest such rank. Threads of a rank may differ. All ranks call
/// it, before anything is allocated.
void check_same_settings(HostGroup& host, const RunConfig& config);

}  // namespace viaduct
