#include "optim/bucket_walk.h"

namespace viaduct {

void walk_buckets(OffloadedBlocks* blocks, const std::vector<BucketUses>& buckets, bool overlap,
                  FunctionRef<void(const RunBucket&)> f) {
  const auto fetch = [&](size_t i) {
    if (i >= buckets.size()) return;
    for (const BlockUse& use : buckets[i].blocks) blocks->fetch(use.first);
  };
  const auto settle = [&](size_t i) {
    for (const BlockUse& use : buckets[i].blocks) blocks->settle(use.first);
  };
  if (overlap) fetch(0);
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (overlap) {
      if (i > 0) settle(i - 1);
      fetch(i + 1);
    }
    for (const BlockUse& use : buckets[i].blocks) blocks->require(use.first);
    f(buckets[i].bucket);
    for (const auto& [block, changed] : buckets[i].blocks) blocks->leave(block, changed);
    if (!overlap) settle(i);
  }
  if (overlap && !buckets.empty()) settle(buckets.size() - 1);
}

}  // namespace viaduct
