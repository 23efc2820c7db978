#include "engine/encoder_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "device/upload_values.h"

namespace viaduct {

CrossDocuments cross_documents(const std::vector<int32_t>& decoder,
                               const std::vector<int32_t>& encoder,
                               const std::vector<int32_t>& encoder_of) {
  VIADUCT_CHECK(ShapeError, encoder_of.size() + 1 == decoder.size(),
                "batch: {} documents, but the encoder's documents of {}", decoder.size() - 1,
                encoder_of.size());
  CrossDocuments cross;
  const auto add = [&](int32_t queries_end, int32_t keys_end) {
    const int64_t queries = queries_end - cross.q_offsets.back(),
                  keys = keys_end - cross.kv_offsets.back();
    cross.q_offsets.push_back(queries_end);
    cross.kv_offsets.push_back(keys_end);
    cross.max_queries = std::max(cross.max_queries, queries);
    cross.max_keys = std::max(cross.max_keys, keys);
    cross.pairs += static_cast<double>(queries) * static_cast<double>(keys);
  };
  const auto documents = static_cast<int32_t>(encoder.size()) - 1;
  int32_t next = 0;  // of the encoder's documents
  // The encoder's documents up to this one have no queries.
  const auto pass_until = [&](int32_t document) {
    while (next < document) add(cross.q_offsets.back(), encoder[static_cast<size_t>(++next)]);
  };
  for (size_t d = 0; d < encoder_of.size(); ++d) {
    const int32_t of = encoder_of[d];
    VIADUCT_CHECK(ShapeError, of < documents && (of < 0 || of >= next),
                  "batch: document {} attends to the encoder's document {}, expected {} to {}, or "
                  "-1 for none",
                  d, of, next, documents - 1);
    if (of < 0) {
      add(decoder[d + 1], cross.kv_offsets.back());
      continue;
    }
    pass_until(of);
    add(decoder[d + 1], encoder[static_cast<size_t>(++next)]);
  }
  pass_until(documents);
  return cross;
}

void append_encoder_row(const std::vector<int32_t>& tokens, int64_t used, int64_t ordinal,
                        HostBatch& batch) {
  if (batch.encoder == nullptr) batch.encoder = std::make_shared<HostBatch>();
  HostBatch& rows = *batch.encoder;
  batch.encoder_document.push_back(static_cast<int32_t>(rows.document_offsets.size()) - 1);
  const auto length = static_cast<int64_t>(tokens.size());
  for (int64_t t = 0; t < length; ++t) {
    rows.ids.push_back(tokens[static_cast<size_t>(t)]);
    rows.positions.push_back(static_cast<int32_t>(t));
    rows.targets.push_back(-1);
    rows.loss_weight.push_back(0);
    rows.token_index.push_back(t < used ? ordinal * length + t : -1);
    if (t + 1 == used) rows.end_document();
  }
  if (used == 0) rows.end_document();
  rows.end_document();
}

namespace {

/// Appends document `d` of `from`.
void append_document(const HostBatch& from, size_t d, HostBatch& to) {
  const int32_t begin = from.document_offsets[d], end = from.document_offsets[d + 1];
  if (from.sizes_only) return to.add_document_of(end - begin);
  const auto append = [&](const auto& values, auto& list) {
    list.insert(list.end(), values.begin() + begin, values.begin() + end);
  };
  append(from.ids, to.ids);
  append(from.positions, to.positions);
  append(from.targets, to.targets);
  append(from.loss_weight, to.loss_weight);
  append(from.token_index, to.token_index);
  to.end_document();
}

/// Appends a row that no document attends to.
void append_blank_row(int64_t length, HostBatch& to) {
  if (to.sizes_only) {
    to.add_document_of(length);
    return to.add_document_of(0);
  }
  for (int64_t t = 0; t < length; ++t) {
    to.ids.push_back(0);
    to.positions.push_back(static_cast<int32_t>(t));
    to.targets.push_back(-1);
    to.loss_weight.push_back(0);
    to.token_index.push_back(-1);
  }
  to.end_document();
  to.end_document();
}

}  // namespace

void deal_encoder_rows(const HostBatch& whole, const BatchPlace& place, HostBatch& cut) {
  const HostBatch& from = *whole.encoder;
  const auto rows = static_cast<int64_t>(whole.encoder_document.size());
  VIADUCT_CHECK(ShapeError, rows > 0 && from.tokens() % rows == 0,
                "batch: {} tokens of the encoder for {} rows, expected equal lengths",
                from.tokens(), rows);
  const int64_t length = from.tokens() / rows, each = (rows + place.cp - 1) / place.cp,
                first = place.cp_rank * each;
  const auto is_mine = [&](int64_t row) { return row >= first && row < first + each; };
  const auto mine = std::make_shared<HostBatch>();
  mine->sizes_only = from.sizes_only;
  cut.encoder_document = whole.encoder_document;
  cut.encoder_offsets = from.document_offsets;
  for (size_t d = 0; d + 1 < from.document_offsets.size(); ++d) {
    const int64_t begin = from.document_offsets[d], end = from.document_offsets[d + 1];
    // An empty document at a border is the padding of the row before it.
    const int64_t last = end > begin ? end - 1 : std::max<int64_t>(begin - 1, 0),
                  row = last / length;
    VIADUCT_CHECK(ShapeError, end == begin || begin / length == row,
                  "batch: document {} of the encoder is in two rows of {} tokens", d, length);
    if (is_mine(row)) append_document(from, d, *mine);
  }
  for (int64_t row = rows; row < place.cp * each; ++row) {
    const auto end = static_cast<int32_t>((row + 1) * length);
    cut.encoder_offsets.insert(cut.encoder_offsets.end(), {end, end});
    if (is_mine(row)) append_blank_row(length, *mine);
  }
  cut.encoder = mine;
}

std::shared_ptr<const EncoderRows> upload_encoder(Device& device, const HostBatch& batch,
                                                  int64_t vocabulary, const BatchPlace& place) {
  const HostBatch& rows = *batch.encoder;
  const CrossDocuments cross =
      cross_documents(batch.document_offsets,
                      batch.encoder_offsets.empty() ? rows.document_offsets : batch.encoder_offsets,
                      batch.encoder_document);
  const auto offsets = [&](const std::vector<int32_t>& values) {
    return upload_values<int32_t>(
        device, {static_cast<int64_t>(values.size())}, MemoryTag::batch, Tensor(),
        [&](int32_t* to) { std::memcpy(to, values.data(), values.size() * sizeof(int32_t)); });
  };
  auto encoder = std::make_shared<EncoderRows>();
  // Relative positions have no end.
  constexpr int64_t kAnyPosition = std::numeric_limits<int32_t>::max();
  BatchPlace of_rows = place;  // which are not cut
  of_rows.cp = of_rows.cp_inner = 1, of_rows.cp_rank = 0;
  encoder->rows = upload(device, rows, vocabulary, kAnyPosition, of_rows);
  encoder->keys = cross.kv_offsets.back();
  encoder->q_offsets = offsets(cross.q_offsets);
  encoder->kv_offsets = offsets(cross.kv_offsets);
  encoder->max_queries = cross.max_queries;
  encoder->max_keys = cross.max_keys;
  encoder->pairs = cross.pairs;
  return encoder;
}

}  // namespace viaduct
