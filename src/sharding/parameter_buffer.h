#pragma once
// The memory behind the parameters of one model chunk that agree in format: weights and main
// gradients as two flat buffers of one layout, and this rank's shard of the masters.

#include <vector>

#include "device/device.h"
#include "nn/parameter.h"
#include "sharding/buffer_layout.h"

namespace viaduct {

struct BufferFormats {
  DType weight = DType::f32;
  DType gradient = DType::f32;
  DType master = DType::f32;
  bool with_gradients = true;
  bool master_is_weight = true;
  bool with_masters = true;  // where they are not the weights
};

class ParameterBuffer {
 public:
  /// `parameters` in the order that `layout` was made from. Padding is zero, nothing else is
  /// initialized.
  ParameterBuffer(Device& device, std::vector<const Parameter*> parameters, BufferLayout layout,
                  const BufferFormats& formats, int shard);

  const std::vector<const Parameter*>& parameters() const { return parameters_; }
  const BufferLayout& layout() const { return layout_; }
  int shard() const { return shard_; }

  /// A parameter in its shape.
  Tensor weight(size_t parameter) const { return shaped(weights_, parameter); }
  Tensor gradient(size_t parameter) const { return shaped(gradients_, parameter); }

  // Flat views: a whole bucket, and this rank's shard of it.
  Tensor bucket_weights(size_t bucket) const { return flat(weights_, layout_.buckets[bucket]); }
  Tensor own_weights(size_t bucket) const { return flat(weights_, own(bucket)); }
  Tensor bucket_gradients(size_t bucket) const { return flat(gradients_, layout_.buckets[bucket]); }
  Tensor own_gradients(size_t bucket) const { return flat(gradients_, own(bucket)); }
  Tensor own_masters(size_t bucket) const;

 private:
  Range own(size_t bucket) const { return layout_.shard(bucket, shard_); }
  Tensor shaped(const Tensor& buffer, size_t parameter) const;
  static Tensor flat(const Tensor& buffer, const Range& range);

  std::vector<const Parameter*> parameters_;
  BufferLayout layout_;
  int shard_;
  Tensor weights_, gradients_;
  Tensor masters_;  // this rank's shards of all buckets one after the other; or undefined
  std::vector<int64_t> master_begins_;
};

}  // namespace viaduct
