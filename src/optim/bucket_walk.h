#pragma once
// An update loops over buckets of runs; their blocks in the second memory are fetched before each
// and stored after it.

#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/run_buckets.h"

namespace viaduct {

/// A block that a bucket uses, and whether it changes it.
using BlockUse = std::pair<size_t, bool>;

struct BucketUses {
  RunBucket bucket;
  std::vector<BlockUse> blocks;
};

/// Calls f(bucket) for each, with its blocks on the device. `overlap`: the blocks of the next
/// bucket are fetched during f, and the changes of a bucket are copied out until the next one
/// begins: two buckets have device memory at a time. Otherwise copies follow each other, and one
/// bucket has device memory.
void walk_buckets(OffloadedBlocks* blocks, const std::vector<BucketUses>& buckets, bool overlap,
                  FunctionRef<void(const RunBucket&)> f);

}  // namespace viaduct
