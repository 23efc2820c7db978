#include "sharding/parameter_buffer.h"

#include <algorithm>

namespace viaduct {
namespace {

/// The parts of a flat buffer between the used ranges.
std::vector<Tensor> gaps(std::vector<Range> used, const Tensor& buffer) {
  used.push_back({buffer.elements(), buffer.elements()});
  std::sort(used.begin(), used.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Tensor> found;
  int64_t at = 0;
  for (const Range& range : used) {
    if (const int64_t gap = range.begin - at; gap > 0) found.push_back(buffer.slice(0, at, gap));
    at = range.end;
  }
  return found;
}

/// Zero outside parameters: padding takes part in reductions.
void clear_padding(Device& device, std::vector<Range> used, const Tensor& buffer) {
  for (const Tensor& gap : gaps(std::move(used), buffer))
    device.copy_from_host(host_tensor(gap.dtype(), gap.shape()), gap);
}

}  // namespace

ParameterBuffer::ParameterBuffer(Device& device, size_t chunk,
                                 std::vector<const Parameter*> parameters, BufferLayout layout,
                                 const BufferFormats& formats, ShardingGroups groups,
                                 OffloadedBlocks* blocks)
    : chunk_(chunk),
      parameters_(std::move(parameters)),
      layout_(std::move(layout)),
      formats_(formats),
      groups_(std::move(groups)) {
  if (formats.offload_shards) {
    make_blocks(device, *blocks);
  } else {
    if (!formats.weights_in_gradients && !formats.weights_elsewhere)
      weights_ = allocate(device, formats.weight, weight_cuts(), MemoryTag::weights);
    if (formats.with_gradients)
      gradients_ = allocate(device, formats.gradient, gradient_cuts(), MemoryTag::main_gradients);
    if (formats.weights_in_gradients)
      weights_ = {gradients_.storage(), formats.weight, gradients_.shape(),
                  gradients_.offset_bytes()};
  }
  if (!formats.has_masters() || formats.masters_by_run) return;
  masters_ = device.allocate(formats.master, {layout_.elements() / layout_.shards},
                             MemoryTag::master_weights);
}

int ParameterBuffer::place_among(int cuts) const {
  if (cuts == 1) return 0;
  return cuts == layout_.shards ? shard() : groups_.shards->rank();
}

Range ParameterBuffer::cut(size_t bucket, int cuts) const {
  const Range& whole = layout_.buckets[bucket];
  const int64_t length = whole.size() / cuts, begin = whole.begin + place_among(cuts) * length;
  return {begin, begin + length};
}

Tensor ParameterBuffer::allocate(Device& device, DType dtype, int cuts, MemoryTag tag) const {
  const int64_t packed = elements_per_value(dtype);
  const Tensor buffer = device.allocate(dtype, {layout_.elements() / cuts / packed}, tag);
  std::vector<Range> used;
  for (const BufferLayout::Place& place : layout_.parameters) {
    const Range held = cut(place.bucket, cuts);
    const auto here = overlap(place.range, held);
    if (!here) continue;
    const int64_t moved = layout_.buckets[place.bucket].begin / cuts - held.begin;
    used.push_back({(here->begin + moved) / packed, (here->end + moved) / packed});
  }
  clear_padding(device, std::move(used), buffer);
  return buffer;
}

Tensor ParameterBuffer::view(const Tensor& buffer, int held, size_t bucket, int wanted) const {
  const Range range = cut(bucket, wanted);
  const int64_t moved = layout_.buckets[bucket].begin / held - cut(bucket, held).begin;
  return flat_part(buffer, {range.begin + moved, range.end + moved});
}

void ParameterBuffer::make_blocks(Device& device, OffloadedBlocks& blocks) {
  std::vector<std::vector<Range>> used(layout_.buckets.size());
  const int shards = groups_.shards->size();
  for (const BufferLayout::Place& place : layout_.parameters) {
    const Range held = cut(place.bucket, shards);
    if (const auto here = overlap(place.range, held))
      used[place.bucket].push_back({here->begin - held.begin, here->end - held.begin});
  }
  for (size_t i = 0; i < layout_.buckets.size(); ++i) {
    const int64_t elements = layout_.buckets[i].size() / shards;
    const Tensor weights = blocks.add(MemoryTag::weights, {{formats_.weight, elements}}).front();
    const size_t block = *blocks.block_of(weights);
    blocks.begin(block);
    clear_padding(device, used[i], blocks.present(weights));
    blocks.leave(block, true);
    blocks.settle(block);
    weight_blocks_.push_back(weights);
    if (!formats_.with_gradients) continue;
    gradient_blocks_.push_back(
        blocks.add(MemoryTag::main_gradients, {{formats_.gradient, elements}}).front());
  }
}

Tensor ParameterBuffer::own_of(const Tensor& shard, size_t bucket) const {
  const Range own = cut(bucket, layout_.shards), held = cut(bucket, groups_.shards->size());
  return flat_part(shard, {own.begin - held.begin, own.end - held.begin});
}

Tensor ParameterBuffer::own_masters(size_t bucket) const {
  return masters_ ? view(masters_, layout_.shards, bucket, layout_.shards) : own_weights(bucket);
}

Tensor ParameterBuffer::weight_in_shard(size_t parameter) const {
  const BufferLayout::Place& place = layout_.parameters[parameter];
  const Range held = cut(place.bucket, groups_.shards->size());
  const auto here = overlap(place.range, held);
  return here ? flat_part(shard_weights(place.bucket),
                          {here->begin - held.begin, here->end - held.begin})
              : Tensor();
}

std::vector<Tensor> ParameterBuffer::gradient_padding() const {
  std::vector<Range> used;
  for (const BufferLayout::Place& place : layout_.parameters) used.push_back(place.range);
  return gaps(std::move(used), gradients_);
}

Tensor ParameterBuffer::bucket_weights(size_t bucket) const {
  return formats_.shard_weights ? Tensor() : flat_part(weights_, layout_.buckets[bucket]);
}

Tensor ParameterBuffer::bucket_gradients(size_t bucket) const {
  return formats_.shard_gradients ? Tensor() : flat_part(gradients_, layout_.buckets[bucket]);
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
  Shape shape = parameters_[parameter]->shape;
  shape[shape.rank() - 1] /= elements_per_value(bucket.dtype());
  return flat_part(bucket, {place.range.begin - origin, place.range.end - origin}).view(shape);
}

}  // namespace viaduct
