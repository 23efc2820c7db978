#include "sharding/instance_gather.h"

namespace viaduct {

InstanceGather::InstanceGather(const ParameterEntries& entries, const StoreSettings& settings,
                               OffloadedBlocks* blocks)
    : entries_(entries),
      shares_(settings.share_state),
      one_at_a_time_(settings.offload_shards),
      blocks_(blocks),
      gathered_(entries.buckets().size(), false) {}

void InstanceGather::invalidate() {
  gathered_.assign(gathered_.size(), false);
}

void InstanceGather::gather(size_t chunks) {
  if (!shares_) return;
  BlockCursor cursor(blocks_, BlockCursor::Access::change);
  std::vector<CommHandle> handles;
  const auto& buckets = entries_.buckets();
  for (size_t i = buckets.size(); i-- > 0;) {  // in the order of use
    const ParameterBucket& bucket = buckets[i];
    if (bucket.chunk >= chunks || gathered_[i]) continue;
    if (!bucket.parameters.front()->trained) continue;  // no instance has only a part of it
    const ParameterBuffer& buffer = entries_.buffer_of(bucket);
    const Tensor shard = cursor.at(buffer.shard_weights(bucket.bucket));
    handles.push_back(
        buffer.groups().copies->all_gather(cursor.at(buffer.own_weights(bucket.bucket)), shard));
    if (one_at_a_time_) handles.back().wait();  // moved out before the next is fetched
    gathered_[i] = true;
  }
  for (CommHandle& handle : handles) handle.wait();
  cursor.finish();
}

}  // namespace viaduct
