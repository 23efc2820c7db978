#include "generate/pass_tokens.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace viaduct {
namespace {

template <class T>
Tensor to_device(Device& device, std::span<const T> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  const Tensor host = host_tensor(dtype_of<T>, shape);
  std::memcpy(host.raw(), values.data(), values.size_bytes());
  Tensor tensor = device.allocate(dtype_of<T>, shape, MemoryTag::batch);
  device.copy_from_host(host, tensor);
  return tensor;
}

}  // namespace

void PassTokens::add(int32_t id, int64_t position) {
  ids.push_back(id);
  positions.push_back(static_cast<int32_t>(position));
  index.push_back(position);
}

void PassTokens::end_run() {
  longest = std::max(longest, tokens() - offsets.back());
  offsets.push_back(static_cast<int32_t>(tokens()));
}

int64_t filling_of(int64_t tokens, int64_t parts) {
  return std::max<int64_t>(1, (tokens + parts - 1) / parts) * parts - tokens;
}

Batch upload_tokens(Device& device, const PassTokens& tokens, int64_t parts, int64_t part) {
  const std::vector<int32_t> targets(tokens.ids.size(), -1);
  const std::vector<float> weights(tokens.ids.size(), 0.0f);
  const int64_t rows = tokens.tokens() / parts;
  return {.ids = to_device<int32_t>(device, tokens.ids),
          .positions = to_device<int32_t>(device, tokens.positions),
          .targets = to_device<int32_t>(device, targets),
          .loss_weight = to_device<float>(device, weights),
          .token_index = to_device<int64_t>(device, tokens.index),
          .document_offsets = to_device<int32_t>(device, tokens.offsets),
          .max_document = tokens.longest,
          .stream_begin = part * rows,
          .stream_tokens = rows};
}

}  // namespace viaduct
