#pragma once
// The groups of ranks that share the parameters of a grid.

#include <memory>

#include "comm/parallel_groups.h"

namespace viaduct {

struct ShardingGroups {
  using Group = std::shared_ptr<Communicator>;

  Group shards;  // one instance of the distributed optimizer: each rank has another shard
  Group copies;  // the ranks with the same shard in all instances
  Group ranks;   // all of them, instance by instance
};

/// Of the data-parallel ranks of a grid.
inline ShardingGroups sharding_groups(const ParallelGroups& groups, Grid grid) {
  const auto& ranks =
      grid == Grid::attention ? groups.of(grid, {Axis::cp, Axis::dp}) : groups.of(grid, {Axis::dp});
  return {groups.of(grid, {Axis::dp_inner}), groups.of(grid, {Axis::dp_outer}), ranks};
}

}  // namespace viaduct
