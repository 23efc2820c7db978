#include "engine/sample_batch.h"

#include "engine/encoder_batch.h"

namespace viaduct {

void append_row(const Sample& sample, int64_t ordinal, HostBatch& batch) {
  const size_t length = sample.tokens.size();
  const int64_t first = ordinal * static_cast<int64_t>(length);
  const auto base = static_cast<int32_t>(batch.tokens());
  batch.ids.insert(batch.ids.end(), sample.tokens.begin(), sample.tokens.end());
  batch.positions.insert(batch.positions.end(), sample.position_ids.begin(),
                         sample.position_ids.end());
  batch.loss_weight.insert(batch.loss_weight.end(), sample.loss_mask.begin(),
                           sample.loss_mask.end());
  for (size_t t = 0; t < length; ++t) {
    batch.targets.push_back(sample.loss_mask[t] > 0 ? sample.labels[t] : -1);
    const bool padding = !sample.padding.empty() && sample.padding[t] != 0;
    batch.token_index.push_back(padding ? -1 : first + static_cast<int64_t>(t));
  }
  for (size_t d = 1; d < sample.cu_seqlens.size(); ++d)
    batch.document_offsets.push_back(base + sample.cu_seqlens[d]);
  if (!sample.encoder_tokens.empty())
    append_encoder_row(sample.encoder_tokens, sample.encoder_used, ordinal, batch);
  batch.images.append(sample.images);
}

HostBatch read_batch(const SampleSource& source, std::span<const RowRef> rows) {
  HostBatch batch;
  Sample sample;
  for (const RowRef& row : rows) {
    source.get(row.index, sample);
    append_row(sample, row.ordinal, batch);
  }
  return batch;
}

HostBatch blank_rows(int64_t rows, int64_t length, int64_t encoder_length) {
  const auto tokens = static_cast<size_t>(rows * length);
  HostBatch batch;
  batch.ids.assign(tokens, 0);
  batch.targets.assign(tokens, -1);
  batch.loss_weight.assign(tokens, 0.0f);
  batch.positions.assign(tokens, 0);  // rows may be longer than the model's positions
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t t = 0; t < length; ++t) batch.token_index.push_back(row * length + t);
    batch.document_offsets.push_back(static_cast<int32_t>((row + 1) * length));
    if (encoder_length > 0) {
      const std::vector<int32_t> blank(static_cast<size_t>(encoder_length), 0);
      append_encoder_row(blank, encoder_length, row, batch);
    }
  }
  return batch;
}

}  // namespace viaduct
