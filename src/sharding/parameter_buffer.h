#pragma once
// The memory behind those parameters of a model chunk that agree in grid and format: weights and
// main gradients as flat buffers of one layout, and this rank's shard of the masters. Weights and
// gradients may also be shards; then the objects that gather and reduce them hold the whole ones.
// Where the
// instances of the distributed optimizer share its state, a rank updates a part of its shard, and
// has masters only for this part.

#include <vector>

#include "device/device.h"
#include "nn/parameter.h"
#include "sharding/buffer_layout.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/sharding_groups.h"
#include "tensor/packing.h"

namespace viaduct {

struct BufferFormats {
  DType weight = DType::f32;
  DType gradient = DType::f32;
  DType master = DType::f32;
  DType message = DType::f32;  // of gradients on the wire, where they are shards
  bool with_gradients = true;
  bool master_is_weight = true;
  bool with_masters = true;     // where they are not the weights
  bool masters_by_run = false;  // and these are not part of the buffer
  // Only this rank's shards; otherwise whole.
  bool shard_weights = false, shard_gradients = false;
  bool offload_shards = false;  // both, and each bucket's are blocks of a second memory
  /// There are no weights here: they are stored in blocks (sharding/frozen_weights.h).
  bool weights_elsewhere = false;
  /// Weights share the memory of the gradients, at its begin, and exist only while these do not.
  bool weights_in_gradients = false;

  /// Masters besides the weights.
  bool has_masters() const { return with_masters && !master_is_weight; }
};

/// Elements of a flat tensor, or nothing of nothing. Where two elements share a byte both ends of
/// the range are even.
inline Tensor flat_part(const Tensor& flat, const Range& range) {
  if (!flat) return flat;
  const int64_t packed = elements_per_value(flat.dtype());
  return flat.slice(0, range.begin / packed, range.size() / packed);
}

class ParameterBuffer {
 public:
  /// `parameters` in the order that `layout` was made from; this rank's shard is its place in
  /// `groups.shards`. `layout` has as many shards as this group has ranks, or where instances share
  /// their state, as all of `groups.ranks`. Padding is zero, nothing else is initialized.
  /// `blocks`: with offload_shards, which outlive this.
  ParameterBuffer(Device& device, size_t chunk, std::vector<const Parameter*> parameters,
                  BufferLayout layout, const BufferFormats& formats, ShardingGroups groups,
                  OffloadedBlocks* blocks = nullptr);

  size_t chunk() const { return chunk_; }
  const std::vector<const Parameter*>& parameters() const { return parameters_; }
  const BufferLayout& layout() const { return layout_; }
  const BufferFormats& formats() const { return formats_; }
  const ShardingGroups& groups() const { return groups_; }
  /// The layout's shard that this rank updates.
  int shard() const { return shard_of(groups_.shards->rank(), groups_.copies->rank()); }
  /// The same for a rank, by its places in its instance and among the instances.
  int shard_of(int in_instance, int instance) const {
    return in_instance * parts() + (parts() > 1 ? instance : 0);
  }
  /// Ranks that share the update of an instance's shard: 1, or one of each instance.
  int parts() const { return layout_.shards / groups_.shards->size(); }

  /// A parameter in its shape (of values: e2m1x2 has half as many columns); undefined if this rank
  /// has only a shard, and where weights are elsewhere.
  Tensor weight(size_t parameter) const;
  Tensor gradient(size_t parameter) const;
  /// A parameter in its shape, in the flat weights or gradients of its whole bucket.
  Tensor in_bucket(const Tensor& bucket, size_t parameter) const;

  // Flat views: a whole bucket (undefined if this rank has only a shard), this rank's shard of it,
  // and the part of the shard that this rank updates.
  Tensor bucket_weights(size_t bucket) const;
  Tensor bucket_gradients(size_t bucket) const;
  Tensor shard_weights(size_t bucket) const {
    return formats_.offload_shards ? weight_blocks_[bucket]
                                   : view(weights_, weight_cuts(), bucket, groups_.shards->size());
  }
  Tensor shard_gradients(size_t bucket) const {
    if (formats_.offload_shards)
      return formats_.with_gradients ? gradient_blocks_[bucket] : Tensor();
    return view(gradients_, gradient_cuts(), bucket, groups_.shards->size());
  }
  Tensor own_weights(size_t bucket) const {
    return formats_.offload_shards ? own_of(shard_weights(bucket), bucket)
                                   : view(weights_, weight_cuts(), bucket, layout_.shards);
  }
  Tensor own_gradients(size_t bucket) const {
    return formats_.offload_shards ? own_of(shard_gradients(bucket), bucket)
                                   : view(gradients_, gradient_cuts(), bucket, layout_.shards);
  }
  Tensor own_masters(size_t bucket) const;
  /// The elements of a parameter in the shard of the weights; undefined if it has none of them.
  Tensor weight_in_shard(size_t parameter) const;
  /// The elements of whole gradients that belong to no parameter.
  std::vector<Tensor> gradient_padding() const;

 private:
  // A buffer holds one of this many equal cuts of each bucket: 1, those of an instance, or the
  // layout's shards.
  int weight_cuts() const { return formats_.shard_weights ? groups_.shards->size() : 1; }
  int gradient_cuts() const { return formats_.shard_gradients ? groups_.shards->size() : 1; }
  /// This rank's place among the cuts.
  int place_among(int cuts) const;
  /// This rank's cut of a bucket, in the buffer of whole buckets.
  Range cut(size_t bucket, int cuts) const;
  /// Shards of all buckets in the second memory; the padding of weights is zero there.
  void make_blocks(Device& device, OffloadedBlocks& blocks);
  Tensor allocate(Device& device, DType dtype, int cuts, MemoryTag tag) const;
  /// For a buffer that holds one of `held` cuts of each bucket: the one of `wanted` cuts that is
  /// inside it.
  Tensor view(const Tensor& buffer, int held, size_t bucket, int wanted) const;
  /// The part of its flat shard of a bucket that this rank updates.
  Tensor own_of(const Tensor& shard, size_t bucket) const;

  size_t chunk_;
  std::vector<const Parameter*> parameters_;
  BufferLayout layout_;
  BufferFormats formats_;
  ShardingGroups groups_;
  Tensor weights_, gradients_;
  std::vector<Tensor> weight_blocks_, gradient_blocks_;  // by bucket, with offload_shards
  Tensor masters_;  // the updated parts of all buckets, contiguous; or undefined
};

}  // namespace viaduct
