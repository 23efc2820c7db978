#include "nn/cross_cache.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {

CrossCache::CrossCache(Device& device, CrossCacheShape shape) : shape_(std::move(shape)) {
  int64_t tokens = 0;
  const auto sequences = static_cast<int64_t>(shape_.lengths.size());
  const Tensor offsets = host_tensor(DType::i32, {sequences + 1});
  for (int64_t i = 0; i < sequences; ++i) {
    offsets.data<int32_t>()[i] = static_cast<int32_t>(tokens);
    begins_.push_back(tokens);
    tokens += length(i);
  }
  offsets.data<int32_t>()[sequences] = static_cast<int32_t>(tokens);
  offsets_ = device.allocate(DType::i32, offsets.shape(), MemoryTag::kv_cache);
  device.copy_from_host(offsets, offsets_);
  for (size_t i = 0; i < shape_.layers.size(); ++i) {
    keys_.push_back(device.allocate(shape_.dtype, {tokens, shape_.kv_heads, shape_.head_dim},
                                    MemoryTag::kv_cache));
    values_.push_back(device.allocate(shape_.dtype, {tokens, shape_.kv_heads, shape_.value_dim},
                                      MemoryTag::kv_cache));
  }
}

int64_t CrossCache::longest() const {
  return shape_.lengths.empty() ? 0 : *std::ranges::max_element(shape_.lengths);
}

size_t CrossCache::place_of(int64_t layer) const {
  const auto found = std::ranges::find(shape_.layers, layer);
  VIADUCT_CHECK(ShapeError, found != shape_.layers.end(),
                "cross attention's cache: layer {} is not held by this rank", layer);
  return static_cast<size_t>(found - shape_.layers.begin());
}

void CrossCache::write(OpContext& context, const Tensor& from, const Tensor& rows) const {
  int64_t begin = 0;
  for (const int64_t sequence : encoded_) {
    const int64_t tokens = length(sequence);
    VIADUCT_CHECK(ShapeError, begin + tokens <= from.dim(0),
                  "cross attention's cache: {} tokens of the encoder, fewer than its inputs have",
                  from.dim(0));
    copy(context, {from.slice(0, begin, tokens),
                   rows.slice(0, begins_[static_cast<size_t>(sequence)], tokens)});
    begin += tokens;
  }
}

void CrossCache::put(OpContext& context, int64_t layer, const Tensor& k, const Tensor& v) {
  const size_t place = place_of(layer);
  write(context, k, keys_[place]);
  write(context, v, values_[place]);
}

CrossCache::View CrossCache::view(int64_t layer) const {
  const size_t place = place_of(layer);
  return {keys_[place], values_[place]};
}

}  // namespace viaduct
