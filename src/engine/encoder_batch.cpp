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

std::shared_ptr<const EncoderRows> upload_encoder(Device& device, const HostBatch& batch,
                                                  int64_t vocabulary, const BatchPlace& place) {
  const HostBatch& rows = *batch.encoder;
  const CrossDocuments cross =
      cross_documents(batch.document_offsets, rows.document_offsets, batch.encoder_document);
  const auto offsets = [&](const std::vector<int32_t>& values) {
    return upload_values<int32_t>(
        device, {static_cast<int64_t>(values.size())}, MemoryTag::batch, Tensor(),
        [&](int32_t* to) { std::memcpy(to, values.data(), values.size() * sizeof(int32_t)); });
  };
  auto encoder = std::make_shared<EncoderRows>();
  // Relative positions have no end.
  constexpr int64_t kAnyPosition = std::numeric_limits<int32_t>::max();
  encoder->rows = upload(device, rows, vocabulary, kAnyPosition, place);
  encoder->q_offsets = offsets(cross.q_offsets);
  encoder->kv_offsets = offsets(cross.kv_offsets);
  encoder->max_queries = cross.max_queries;
  encoder->max_keys = cross.max_keys;
  encoder->pairs = cross.pairs;
  return encoder;
}

}  // namespace viaduct
