#pragma once
// The memory behind those parameters of a model chunk that agree in grid and format: weights and
// main gradients as flat buffers of one layout, and this rank's shard of the masters. Weights and
// gradients may be shards, too; who gathers and reduces them then has the whole ones.

#include <vector>

#include "device/device.h"
#include "nn/parameter.h"
#include "sharding/buffer_layout.h"
#include "sharding/sharding_groups.h"

namespace viaduct {

struct BufferFormats {
  DType weight = DType::f32;
  DType gradient = DType::f32;
  DType master = DType::f32;
  bool with_gradients = true;
  bool master_is_weight = true;
  bool with_masters = true;  // where they are not the weights
  // This rank's shards alone; otherwise whole.
  bool shard_weights = false, shard_gradients = false;
};

class ParameterBuffer {
 public:
  /// `parameters` in the order that `layout` was made from; this rank's shard is its place in
  /// `groups.shards`. Padding is zero, nothing else is initialized.
  ParameterBuffer(Device& device, size_t chunk, std::vector<const Parameter*> parameters,
                  BufferLayout layout, const BufferFormats& formats, ShardingGroups groups);

  size_t chunk() const { return chunk_; }
  const std::vector<const Parameter*>& parameters() const { return parameters_; }
  const BufferLayout& layout() const { return layout_; }
  const BufferFormats& formats() const { return formats_; }
  const ShardingGroups& groups() const { return groups_; }
  int shard() const { return groups_.shards->rank(); }

  /// A parameter in its shape; undefined where this rank has a shard alone.
  Tensor weight(size_t parameter) const;
  Tensor gradient(size_t parameter) const;
  /// A parameter in its shape, in the flat weights or gradients of its whole bucket.
  Tensor in_bucket(const Tensor& bucket, size_t parameter) const;

  // Flat views: a whole bucket (undefined where this rank has a shard alone), and this rank's shard
  // of it.
  Tensor bucket_weights(size_t bucket) const;
  Tensor bucket_gradients(size_t bucket) const;
  Tensor own_weights(size_t bucket) const { return own(weights_, formats_.shard_weights, bucket); }
  Tensor own_gradients(size_t bucket) const {
    return own(gradients_, formats_.shard_gradients, bucket);
  }
  Tensor own_masters(size_t bucket) const;

 private:
  Tensor allocate(Device& device, DType dtype, bool shards, MemoryTag tag) const;
  Tensor own(const Tensor& buffer, bool shards, size_t bucket) const;
  static Tensor flat(const Tensor& buffer, const Range& range);

  size_t chunk_;
  std::vector<const Parameter*> parameters_;
  BufferLayout layout_;
  BufferFormats formats_;
  ShardingGroups groups_;
  std::vector<int64_t> shard_begins_;  // of each bucket's shard, in buffers of shards
  Tensor weights_, gradients_;
  Tensor masters_;  // this rank's shards of all buckets one after the other; or undefined
};

}  // namespace viaduct
