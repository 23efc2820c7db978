#pragma once
// The cluster that a published run ran on.

#include "hardware/cluster.h"
#include "plan/score/published_table.h"

namespace viaduct {

/// By column `hardware`, with the network that the source states where it differs from that of the
/// maker's system. UnsupportedRow, with the nearest name, for hardware that the catalog does
/// not have or that there are no kernels for.
Cluster published_cluster(const PublishedRow& row);

}  // namespace viaduct
