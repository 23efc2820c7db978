#pragma once
// Instances of the distributed optimizer that share the update of their common shard: after it,
// each gathers the parts that the others have updated.

#include <vector>

#include "sharding/parameter_entries.h"

namespace viaduct {

class InstanceGather {
 public:
  InstanceGather(const ParameterEntries& entries, const StoreSettings& settings,
                 OffloadedBlocks* blocks);

  /// Shards are about to change.
  void invalidate();
  /// Gathers the shards of the first `chunks` chunks that are not gathered yet. Does nothing where
  /// each instance updates its whole shard (share_state).
  void gather(size_t chunks);

 private:
  const ParameterEntries& entries_;
  bool shares_, one_at_a_time_;
  OffloadedBlocks* blocks_;
  std::vector<bool> gathered_;  // by bucket
};

}  // namespace viaduct
