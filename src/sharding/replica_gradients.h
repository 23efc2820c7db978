#pragma once
// After the sum over data-parallel ranks: parameters that several tensor ranks or stages hold get
// the sum of the gradients that each of these computed.

#include <vector>

#include "comm/parallel_groups.h"
#include "ops/dispatch.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/shard_run.h"

namespace viaduct {

/// Sums the runs of parts with partial replica gradients over the tensor ranks that hold them
/// (groups tp and tp.kv), one message a group, and then parameters of several stages over
/// the groups of these. Replicas have runs of equal ranges, except those of stages with different
/// tensor sizes, which are summed as whole tables, one message each. `parameters`: the rank's.
void sum_replica_gradients(OpContext& context, const std::vector<const Parameter*>& parameters,
                           const std::vector<ShardRun>& runs, const ParallelGroups& groups,
                           OffloadedBlocks* blocks = nullptr);

}  // namespace viaduct
