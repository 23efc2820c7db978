#pragma once
// Settings that the configuration leaves open and the cluster gives.

#include "hardware/cluster.h"
#include "run/run_config.h"

namespace viaduct {

/// Its GPU as target of kernels, and its domain of fast links, which experts' rows are sent by.
RunConfig planning_defaults(const Cluster& cluster);

}  // namespace viaduct
