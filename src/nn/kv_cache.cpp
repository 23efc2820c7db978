#include "nn/kv_cache.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {

KeyValueCache::KeyValueCache(Device& device, CacheShape shape)
    : device_(device),
      shape_(std::move(shape)),
      lengths_(static_cast<size_t>(shape_.sequences), 0),
      counts_(lengths_),
      keys_(shape_.layers.size()),
      values_(shape_.layers.size()) {
  offsets_ = device.allocate(DType::i32, {shape_.sequences + 1}, MemoryTag::kv_cache);
  diagonal_ = device.allocate(DType::i32, {shape_.sequences}, MemoryTag::kv_cache);
}

CachedHeads KeyValueCache::heads_at(size_t place) const {
  if (!shape_.heads.empty()) return shape_.heads[place];
  return {shape_.kv_heads, shape_.head_dim,
          shape_.value_dim > 0 ? shape_.value_dim : shape_.head_dim};
}

void KeyValueCache::grow(OpContext& context, int64_t rows) {
  for (std::vector<Tensor>* tensors : {&keys_, &values_}) {
    for (size_t place = 0; place < tensors->size(); ++place) {
      const CachedHeads heads = heads_at(place);
      const int64_t width = heads.kv_heads * (tensors == &keys_ ? heads.head_dim : heads.value_dim);
      Tensor& tensor = (*tensors)[place];
      const Tensor larger =
          device_.allocate(shape_.dtype, {shape_.sequences, rows, width}, MemoryTag::kv_cache);
      // Attention multiplies hidden rows by zero: they must be finite.
      fill(context, {larger, 0});
      if (rows_ > 0) copy(context, {tensor, larger.slice(1, 0, rows_)});
      tensor = larger;
    }
  }
  rows_ = rows;
}

void KeyValueCache::reserve(OpContext& context, int64_t tokens) {
  VIADUCT_CHECK(ShapeError, tokens <= shape_.positions,
                "key-value cache: a sequence of {} tokens, at most {} fit", tokens,
                shape_.positions);
  while (rows_ < tokens) {
    // At first as many as the first step needs, then block by block.
    const int64_t wanted = rows_ == 0 ? tokens : rows_ + 1;
    const int64_t blocks = (wanted + kBlock - 1) / kBlock;
    grow(context, std::min(blocks * kBlock, shape_.positions));
  }
}

void KeyValueCache::begin_step(OpContext& context, std::span<const int64_t> counts) {
  VIADUCT_CHECK(ShapeError, counts.size() == lengths_.size(),
                "key-value cache: new tokens of {} sequences, expected {}", counts.size(),
                lengths_.size());
  counts_.assign(counts.begin(), counts.end());
  max_keys_ = 0;
  for (size_t i = 0; i < counts_.size(); ++i)
    max_keys_ = std::max(max_keys_, lengths_[i] + counts_[i]);
  reserve(context, max_keys_);
  const Tensor offsets = host_tensor(DType::i32, offsets_.shape());
  const Tensor diagonal = host_tensor(DType::i32, diagonal_.shape());
  for (int64_t i = 0; i <= shape_.sequences; ++i)
    offsets.data<int32_t>()[i] = static_cast<int32_t>(i * rows_);
  for (size_t i = 0; i < lengths_.size(); ++i)
    diagonal.data<int32_t>()[i] = static_cast<int32_t>(lengths_[i]);
  device_.copy_from_host(offsets, offsets_);
  device_.copy_from_host(diagonal, diagonal_);
  if (shape_.chunk > 0) cut_chunks();
}

void KeyValueCache::cut_chunks() {
  std::vector<int32_t> queries{0}, keys{0}, first_query;
  int64_t fed = 0;
  for (int64_t i = 0; i < shape_.sequences; ++i) {
    const auto sequence = static_cast<size_t>(i);
    const int64_t before = lengths_[sequence], after = before + counts_[sequence];
    for (int64_t begin = 0; begin < rows_; begin += shape_.chunk) {
      const int64_t end = std::min(begin + shape_.chunk, rows_);
      const int64_t first = std::clamp(begin, before, after), last = std::clamp(end, before, after);
      fed += last - first;
      queries.push_back(static_cast<int32_t>(fed));
      keys.push_back(static_cast<int32_t>(i * rows_ + end));
      first_query.push_back(static_cast<int32_t>(last > first ? first - begin : 0));
    }
  }
  const auto copy_to = [&](const std::vector<int32_t>& values, Tensor& to) {
    const Shape shape{static_cast<int64_t>(values.size())};
    if (!to || !(to.shape() == shape))
      to = device_.allocate(DType::i32, shape, MemoryTag::kv_cache);
    const Tensor from = host_tensor(DType::i32, shape);
    std::ranges::copy(values, from.data<int32_t>());
    device_.copy_from_host(from, to);
  };
  copy_to(queries, chunks_.q_offsets);
  copy_to(keys, chunks_.offsets);
  copy_to(first_query, chunks_.diagonal);
  chunks_.max_keys = std::min(shape_.chunk, max_keys_);
}

void KeyValueCache::write(OpContext& context, const Tensor& from, const Tensor& rows,
                          int64_t heads) const {
  const int64_t sequences = shape_.sequences, width = rows.dim(2);
  const auto same = [](const std::vector<int64_t>& values) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
  };
  if (same(counts_) && same(lengths_)) {
    copy(context,
         {from.view({sequences, counts_[0], width}), rows.slice(1, lengths_[0], counts_[0])});
    return;
  }
  int64_t begin = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t count = counts_[static_cast<size_t>(i)];
    if (count == 0) continue;
    const Tensor to = rows.select(i).slice(0, lengths_[static_cast<size_t>(i)], count);
    copy(context, {from.slice(0, begin, count), to.view({count, heads, width / heads})});
    begin += count;
  }
}

KeyValueCache::View KeyValueCache::append(OpContext& context, int64_t layer, const Tensor& k,
                                          const Tensor& v) {
  const auto found = std::find(shape_.layers.begin(), shape_.layers.end(), layer);
  VIADUCT_CHECK(ShapeError, found != shape_.layers.end(),
                "key-value cache: layer {} is not held by this rank", layer);
  const auto place = static_cast<size_t>(found - shape_.layers.begin());
  const CachedHeads heads = heads_at(place);
  write(context, k, keys_[place], heads.kv_heads);
  write(context, v, values_[place], heads.kv_heads);
  const int64_t rows = shape_.sequences * rows_;
  return {keys_[place].view({rows, heads.kv_heads, heads.head_dim}),
          values_[place].view({rows, heads.kv_heads, heads.value_dim}),
          offsets_,
          diagonal_,
          max_keys_,
          chunks_};
}

void KeyValueCache::end_step() {
  for (size_t i = 0; i < lengths_.size(); ++i) lengths_[i] += counts_[i];
}

void KeyValueCache::forget(int64_t sequence, int64_t tokens) {
  int64_t& length = lengths_.at(static_cast<size_t>(sequence));
  VIADUCT_CHECK(ShapeError, tokens <= length,
                "key-value cache: {} tokens to forget of sequence {} of {}", tokens, sequence,
                length);
  length -= tokens;
}

}  // namespace viaduct
