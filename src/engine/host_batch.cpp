#include "engine/host_batch.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "nn/context_parallel/layout.h"

namespace viaduct {
namespace {

/// In the memory of `over`, if that is a tensor of this size.
template <class T>
Tensor to_device(Device& device, const std::vector<T>& values, const Tensor& over = {}) {
  const Shape shape{static_cast<int64_t>(values.size())};
  Tensor host = host_tensor(dtype_of<T>, shape);
  if (!values.empty()) std::memcpy(host.raw(), values.data(), values.size() * sizeof(T));
  Tensor tensor = over.defined() && over.shape() == shape
                      ? over
                      : device.allocate(dtype_of<T>, shape, MemoryTag::batch);
  device.copy_from_host(host, tensor);
  return tensor;
}

void check_range(const char* what, const std::vector<int32_t>& values, int32_t lowest,
                 int64_t limit) {
  for (size_t i = 0; i < values.size(); ++i) {
    VIADUCT_CHECK(ShapeError, values[i] >= lowest && values[i] < limit,
                  "batch: {} {} of token {} is outside [0, {})", what, values[i], i, limit);
  }
}

double sum_of(const std::vector<float>& weights) {
  double sum = 0;
  for (float w : weights) sum += w;
  return sum;
}

void normalize(std::vector<float>& weights) {
  const double sum = sum_of(weights);
  if (sum <= 0) return;
  for (float& weight : weights) weight = static_cast<float>(weight / sum);
}

/// The same checks as for the tokens themselves.
ShiftedTokens upload_shifted(Device& device, const HostShiftedTokens& host, size_t tokens,
                             int64_t vocabulary, const ShiftedTokens& over) {
  VIADUCT_CHECK(ShapeError,
                host.ids.size() == tokens && host.targets.size() == tokens &&
                    host.loss_weight.size() == tokens,
                "batch: lists of further tokens differ in length, expected {} tokens", tokens);
  check_range("id further on", host.ids, 0, vocabulary);
  check_range("target further on", host.targets, -1, vocabulary);
  return {to_device(device, host.ids, over.ids), to_device(device, host.targets, over.targets),
          to_device(device, host.loss_weight, over.loss_weight)};
}

}  // namespace

double HostBatch::scored_weight() const {
  return sum_of(loss_weight);
}

void HostBatch::normalize_loss_weights() {
  normalize(loss_weight);
  for (HostShiftedTokens& tokens : shifted) normalize(tokens.loss_weight);
}

Batch upload(Device& device, const HostBatch& host, int64_t vocabulary, int64_t positions,
             const BatchPlace& place, const Batch* over) {
  const size_t tokens = host.ids.size();
  VIADUCT_CHECK(ShapeError,
                host.positions.size() == tokens && host.targets.size() == tokens &&
                    host.loss_weight.size() == tokens && host.token_index.size() == tokens &&
                    host.document_offsets.back() == static_cast<int32_t>(tokens),
                "batch: lists of different lengths for {} tokens", tokens);
  check_range("id", host.ids, 0, vocabulary);
  check_range("target", host.targets, -1, vocabulary);
  check_range("position", host.positions, 0, positions);
  const Batch old = over == nullptr ? Batch() : *over;
  Batch batch;
  batch.ids = to_device(device, host.ids, old.ids);
  batch.positions = to_device(device, host.positions, old.positions);
  batch.targets = to_device(device, host.targets, old.targets);
  batch.loss_weight = to_device(device, host.loss_weight, old.loss_weight);
  batch.token_index = to_device(device, host.token_index, old.token_index);
  batch.document_offsets = to_device(device, host.document_offsets, old.document_offsets);
  for (size_t depth = 0; depth < host.shifted.size(); ++depth) {
    batch.shifted.push_back(
        upload_shifted(device, host.shifted[depth], tokens, vocabulary,
                       depth < old.shifted.size() ? old.shifted[depth] : ShiftedTokens()));
  }
  if (place.cp > 1) {
    batch.context = make_context_layout(device, host.document_offsets, host.whole_token_index,
                                        place.cp, place.cp_rank, place.cp_inner, old.context.get());
  }
  const int parts = place.stream_parts;
  VIADUCT_CHECK(ShapeError, host.tokens() % parts == 0,
                "batch: {} tokens of a context rank do not divide over {} tensor ranks (sequence "
                "parallel)",
                host.tokens(), parts);
  batch.stream_tokens = host.tokens() / parts;
  batch.stream_begin = parts > 1 ? place.stream_part * batch.stream_tokens : 0;
  for (size_t d = 1; d < host.document_offsets.size(); ++d) {
    batch.max_document = std::max<int64_t>(batch.max_document,
                                           host.document_offsets[d] - host.document_offsets[d - 1]);
  }
  return batch;
}

}  // namespace viaduct
