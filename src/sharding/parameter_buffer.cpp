#include "sharding/parameter_buffer.h"

#include <algorithm>

namespace viaduct {
namespace {

/// Zero where no parameter lies: padding takes part in reductions.
void clear_padding(Device& device, const BufferLayout& layout, const Tensor& buffer) {
  std::vector<Range> used;
  for (const auto& place : layout.parameters) used.push_back(place.range);
  used.push_back({layout.elements(), layout.elements()});
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

ParameterBuffer::ParameterBuffer(Device& device, std::vector<const Parameter*> parameters,
                                 BufferLayout layout, const BufferFormats& formats, int shard)
    : parameters_(std::move(parameters)), layout_(std::move(layout)), shard_(shard) {
  const Shape shape{layout_.elements()};
  weights_ = device.allocate(formats.weight, shape, MemoryTag::weights);
  clear_padding(device, layout_, weights_);
  if (formats.with_gradients) {
    gradients_ = device.allocate(formats.gradient, shape, MemoryTag::main_gradients);
    clear_padding(device, layout_, gradients_);
  }
  if (!formats.with_masters || formats.master_is_weight) return;
  masters_ = device.allocate(formats.master, {layout_.elements() / layout_.shards},
                             MemoryTag::master_weights);
  int64_t begin = 0;
  for (const Range& bucket : layout_.buckets) {
    master_begins_.push_back(begin);
    begin += bucket.size() / layout_.shards;
  }
}

Tensor ParameterBuffer::own_masters(size_t bucket) const {
  if (!masters_) return own_weights(bucket);
  return masters_.slice(0, master_begins_[bucket], own(bucket).size());
}

Tensor ParameterBuffer::shaped(const Tensor& buffer, size_t parameter) const {
  if (!buffer) return buffer;
  return flat(buffer, layout_.parameters[parameter].range).view(parameters_[parameter]->shape);
}

Tensor ParameterBuffer::flat(const Tensor& buffer, const Range& range) {
  return buffer ? buffer.slice(0, range.begin, range.size()) : buffer;
}

}  // namespace viaduct
