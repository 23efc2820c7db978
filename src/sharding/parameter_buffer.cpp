#include "sharding/parameter_buffer.h"

#include <algorithm>

namespace viaduct {
namespace {

/// Zero where no parameter lies: padding takes part in reductions.
void clear_padding(Device& device, std::vector<Range> used, const Tensor& buffer) {
  used.push_back({buffer.elements(), buffer.elements()});
  std::sort(used.begin(), used.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  int64_t at = 0;
  for (const Range& range : used) {
    if (const int64_t gap = range.begin - at; gap > 0)
      device.copy_from_host(host_tensor(buffer.dtype(), {gap}), buffer.slice(0, at, gap));
    at = range.end;
  }
}

}  // namespace

ParameterBuffer::ParameterBuffer(Device& device, size_t chunk,
                                 std::vector<const Parameter*> parameters, BufferLayout layout,
                                 const BufferFormats& formats, ShardingGroups groups)
    : chunk_(chunk),
      parameters_(std::move(parameters)),
      layout_(std::move(layout)),
      formats_(formats),
      groups_(std::move(groups)) {
  int64_t begin = 0;
  for (const Range& bucket : layout_.buckets) {
    shard_begins_.push_back(begin);
    begin += bucket.size() / layout_.shards;
  }
  weights_ = allocate(device, formats.weight, formats.shard_weights, MemoryTag::weights);
  if (formats.with_gradients) {
    gradients_ =
        allocate(device, formats.gradient, formats.shard_gradients, MemoryTag::main_gradients);
  }
  if (!formats.with_masters || formats.master_is_weight) return;
  masters_ = device.allocate(formats.master, {layout_.elements() / layout_.shards},
                             MemoryTag::master_weights);
}

Tensor ParameterBuffer::allocate(Device& device, DType dtype, bool shards, MemoryTag tag) const {
  const Tensor buffer =
      device.allocate(dtype, {layout_.elements() / (shards ? layout_.shards : 1)}, tag);
  std::vector<Range> used;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!shards) {
      used.push_back(layout_.parameters[i].range);
    } else if (const auto ranges = shard_ranges(layout_, i, shard())) {
      const int64_t begin = shard_begins_[layout_.parameters[i].bucket];
      used.push_back({begin + ranges->in_shard.begin, begin + ranges->in_shard.end});
    }
  }
  clear_padding(device, std::move(used), buffer);
  return buffer;
}

Tensor ParameterBuffer::own(const Tensor& buffer, bool shards, size_t bucket) const {
  const Range range = layout_.shard(bucket, shard());
  if (!shards) return flat(buffer, range);
  return flat(buffer, {shard_begins_[bucket], shard_begins_[bucket] + range.size()});
}

Tensor ParameterBuffer::own_masters(size_t bucket) const {
  return masters_ ? own(masters_, true, bucket) : own_weights(bucket);
}

Tensor ParameterBuffer::bucket_weights(size_t bucket) const {
  return formats_.shard_weights ? Tensor() : flat(weights_, layout_.buckets[bucket]);
}

Tensor ParameterBuffer::bucket_gradients(size_t bucket) const {
  return formats_.shard_gradients ? Tensor() : flat(gradients_, layout_.buckets[bucket]);
}

Tensor ParameterBuffer::weight(size_t parameter) const {
  return in_bucket(bucket_weights(layout_.parameters[parameter].bucket), parameter);
}

Tensor ParameterBuffer::gradient(size_t parameter) const {
  return in_bucket(bucket_gradients(layout_.parameters[parameter].bucket), parameter);
}

Tensor ParameterBuffer::in_bucket(const Tensor& bucket, size_t parameter) const {
  if (!bucket) return bucket;
  const auto& place = layout_.parameters[parameter];
  const int64_t origin = layout_.buckets[place.bucket].begin;
  return flat(bucket, {place.range.begin - origin, place.range.end - origin})
      .view(parameters_[parameter]->shape);
}

Tensor ParameterBuffer::flat(const Tensor& buffer, const Range& range) {
  return buffer ? buffer.slice(0, range.begin, range.size()) : buffer;
}

}  // namespace viaduct
