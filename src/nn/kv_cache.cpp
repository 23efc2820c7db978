#include "nn/kv_cache.h"

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {

KeyValueCache::KeyValueCache(Device& device, int64_t layers, int64_t capacity, int64_t kv_heads,
                             int64_t head_dim, DType dtype)
    : device_(device), capacity_(capacity) {
  for (int64_t i = 0; i < layers; ++i) {
    keys_.push_back(device.allocate(dtype, {capacity, kv_heads, head_dim}, MemoryTag::kv_cache));
    values_.push_back(device.allocate(dtype, {capacity, kv_heads, head_dim}, MemoryTag::kv_cache));
  }
  offsets_ = device.allocate(DType::i32, {2}, MemoryTag::kv_cache);
  diagonal_ = device.allocate(DType::i32, {1}, MemoryTag::kv_cache);
}

KeyValueCache::View KeyValueCache::append(OpContext& context, int64_t layer, const Tensor& k,
                                          const Tensor& v) {
  const int64_t tokens = k.dim(0), total = length_ + tokens;
  VIADUCT_CHECK(ShapeError, total <= capacity_, "key-value cache: {} tokens, capacity {}", total,
                capacity_);
  const Tensor& keys = keys_.at(static_cast<size_t>(layer));
  const Tensor& values = values_.at(static_cast<size_t>(layer));
  copy(context, {k, keys.slice(0, length_, tokens)});
  copy(context, {v, values.slice(0, length_, tokens)});
  Tensor offsets = host_tensor(DType::i32, {2}), diagonal = host_tensor(DType::i32, {1});
  offsets.data<int32_t>()[1] = static_cast<int32_t>(total);
  diagonal.data<int32_t>()[0] = static_cast<int32_t>(length_);
  device_.copy_from_host(offsets, offsets_);
  device_.copy_from_host(diagonal, diagonal_);
  return {keys.slice(0, 0, total), values.slice(0, 0, total), offsets_, diagonal_};
}

}  // namespace viaduct
