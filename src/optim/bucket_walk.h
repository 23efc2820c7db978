#pragma once
// An update goes over buckets of runs; what they have in the second memory comes here before each
// and leaves after it.

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

/// f(bucket) for each with its blocks here. `overlap`: the blocks of the next bucket are fetched
/// beside f, and what a bucket changed is copied out until the next one begins: two of them have
/// memory at a time. Otherwise copies follow each other, and one bucket has memory.
void walk_buckets(OffloadedBlocks* blocks, const std::vector<BucketUses>& buckets, bool overlap,
                  FunctionRef<void(const RunBucket&)> f);

}  // namespace viaduct
