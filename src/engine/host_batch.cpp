#include "engine/host_batch.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "device/upload_values.h"
#include "engine/encoder_batch.h"
#include "engine/image_rows.h"
#include "nn/context_parallel/layout.h"

namespace viaduct {
namespace {

/// The values of one list of a batch on the device, in the memory of `over` if that is a tensor of
/// this size.
class ListUpload {
 public:
  ListUpload(Device& device, const HostBatch& batch)
      : device_(device), sizes_only_(batch.sizes_only), tokens_(batch.tokens()) {}

  /// Of a list with one value for each token.
  template <class T>
  Tensor operator()(const std::vector<T>& values, const Tensor& over) const {
    return of(values, sizes_only_ ? tokens_ : static_cast<int64_t>(values.size()), over);
  }
  template <class T>
  Tensor of(const std::vector<T>& values, int64_t count, const Tensor& over) const {
    return upload_values<T>(device_, {count}, MemoryTag::batch, over, [&](T* to) {
      std::memcpy(to, values.data(), values.size() * sizeof(T));
    });
  }

 private:
  Device& device_;
  bool sizes_only_;
  int64_t tokens_;
};

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

void check_lists(const HostBatch& host, int64_t vocabulary, int64_t positions) {
  const size_t tokens = host.ids.size();
  VIADUCT_CHECK(ShapeError,
                host.positions.size() == tokens && host.targets.size() == tokens &&
                    host.loss_weight.size() == tokens && host.token_index.size() == tokens &&
                    host.document_offsets.back() == static_cast<int32_t>(tokens),
                "batch: lists of different lengths for {} tokens", tokens);
  check_range("id", host.ids, 0, vocabulary);
  check_range("target", host.targets, -1, vocabulary);
  check_range("position", host.positions, 0, positions);
  for (const HostShiftedTokens& further : host.shifted) {
    VIADUCT_CHECK(ShapeError,
                  further.ids.size() == tokens && further.targets.size() == tokens &&
                      further.loss_weight.size() == tokens,
                  "batch: lists of further tokens differ in length, expected {} tokens", tokens);
    check_range("id further on", further.ids, 0, vocabulary);
    check_range("target further on", further.targets, -1, vocabulary);
  }
}

/// `over`: memory for the offsets.
AttentionChunks cut_chunks(const ListUpload& to_device, const HostBatch& host,
                           const BatchPlace& place, const Tensor& over) {
  std::vector<int32_t> offsets{0};
  AttentionChunks chunks;
  for (size_t d = 1; d < host.document_offsets.size(); ++d) {
    const int64_t end = int64_t{host.document_offsets[d]} * place.cp;
    for (int64_t begin = offsets.back(); begin < end; begin = offsets.back()) {
      const int64_t length = std::min(place.attention_chunk, end - begin);
      offsets.push_back(static_cast<int32_t>(begin + length));
      chunks.longest = std::max(chunks.longest, length);
      chunks.causal_pairs += static_cast<double>(length) * static_cast<double>(length + 1) / 2;
    }
  }
  chunks.offsets = to_device.of(offsets, static_cast<int64_t>(offsets.size()), over);
  return chunks;
}

}  // namespace

std::vector<int64_t> HostBatch::document_tokens() const {
  std::vector<int64_t> lengths;
  for (size_t d = 1; d < document_offsets.size(); ++d) {
    int64_t tokens = document_offsets[d] - document_offsets[d - 1];
    if (!sizes_only) {
      const auto begin = token_index.begin();
      tokens -= std::count(begin + document_offsets[d - 1], begin + document_offsets[d], -1);
    }
    if (tokens > 0) lengths.push_back(tokens);
  }
  return lengths;
}

double HostBatch::scored_weight() const {
  return sum_of(loss_weight);
}

bool HostBatch::has_padding() const {
  // A context rank's part may have none where another one's has.
  const std::vector<int64_t>& all = whole_token_index.empty() ? token_index : whole_token_index;
  return std::ranges::find(all, -1) != all.end();
}

void HostBatch::normalize_loss_weights() {
  normalize(loss_weight);
  for (HostShiftedTokens& tokens : shifted) normalize(tokens.loss_weight);
}

Batch upload(Device& device, const HostBatch& host, int64_t vocabulary, int64_t positions,
             const BatchPlace& place, const Batch* over) {
  VIADUCT_CHECK(ShapeError, !host.sizes_only || !device.executes(),
                "batch: {} tokens without content, and the device computes", host.tokens());
  if (!host.sizes_only) check_lists(host, vocabulary, positions);
  const Batch old = over == nullptr ? Batch() : *over;
  const ListUpload to_device(device, host);
  Batch batch;
  batch.ids = to_device(host.ids, old.ids);
  batch.positions = to_device(host.positions, old.positions);
  batch.targets = to_device(host.targets, old.targets);
  batch.loss_weight = to_device(host.loss_weight, old.loss_weight);
  batch.token_index = to_device(host.token_index, old.token_index);
  const auto offsets = static_cast<int64_t>(host.document_offsets.size());
  batch.document_offsets = to_device.of(host.document_offsets, offsets, old.document_offsets);
  if (place.attention_chunk > 0)
    batch.chunks = cut_chunks(to_device, host, place, old.chunks.offsets);
  for (size_t depth = 0; depth < host.shifted.size(); ++depth) {
    const HostShiftedTokens& further = host.shifted[depth];
    const ShiftedTokens before = depth < old.shifted.size() ? old.shifted[depth] : ShiftedTokens();
    batch.shifted.push_back({to_device(further.ids, before.ids),
                             to_device(further.targets, before.targets),
                             to_device(further.loss_weight, before.loss_weight)});
  }
  if (place.cp > 1) {
    batch.context = make_context_layout(device, host.document_offsets, host.whole_token_index,
                                        place.cp, place.cp_rank, place.cp_inner, old.context.get());
  }
  if (host.encoder != nullptr) {
    VIADUCT_CHECK(ShapeError, over == nullptr,
                  "batch: rows of an encoder cannot take the memory of an earlier batch");
    batch.encoder = upload_encoder(device, host, vocabulary, place);
  }
  VIADUCT_CHECK(ShapeError, place.images.any() || host.images.empty(),
                "batch: {} for a model that reads none", counted(host.images.count, "image"));
  if (place.images.any()) {
    VIADUCT_CHECK(ShapeError, over == nullptr,
                  "batch: rows of images cannot take the memory of an earlier batch");
    check_images(host, place.images);
    if (place.has_tower) batch.encoder = upload_images(device, host, place);
    batch.images = upload_batch_images(device, host, place);
  }
  batch.padded = host.has_padding();
  const int parts = place.stream_parts;
  VIADUCT_CHECK(ShapeError, host.tokens() % parts == 0,
                "batch: {} tokens of a context rank do not divide over {} tensor ranks (sequence "
                "parallel)",
                host.tokens(), parts);
  batch.stream_tokens = host.tokens() / parts;
  batch.stream_begin = parts > 1 ? place.stream_part * batch.stream_tokens : 0;
  for (size_t d = 1; d < host.document_offsets.size(); ++d) {
    const int64_t length = host.document_offsets[d] - host.document_offsets[d - 1];
    batch.max_document = std::max(batch.max_document, length);
    batch.causal_pairs += static_cast<double>(length) * static_cast<double>(length + 1) / 2;
  }
  return batch;
}

}  // namespace viaduct
