// Generation with an encoder: the inputs of the sequences, and the rows of the encoder in the pass
// in which a sequence begins.

#include <utility>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/pass_tokens.h"
#include "nn/encoder_rows.h"

namespace viaduct {

void Generator::start_with(Feed inputs) {
  const ModelConfig& config = model_->config();
  VIADUCT_CHECK(ShapeError, config.encoder.any(),
                "generate: inputs of {} sequences, but the model has no encoder", inputs.size());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < inputs.size(); ++i) {
    VIADUCT_CHECK(ShapeError, !inputs[i].empty(), "generate: the input of sequence {} is empty", i);
    for (const int32_t id : inputs[i]) check_id(id);
    lengths.push_back(static_cast<int64_t>(inputs[i].size()));
  }
  start(static_cast<int64_t>(inputs.size()));
  inputs_.assign(inputs.begin(), inputs.end());
  cross_ = std::make_unique<CrossCache>(
      device_, CrossCacheShape{.layers = blocks(),
                               .kv_heads = kv_heads(),
                               .head_dim = config.head_dim,
                               .value_dim = config.head_dim,
                               .dtype = settings_.layers.precision.activation,
                               .lengths = std::move(lengths)});
}

std::shared_ptr<const EncoderRows> Generator::encoder_rows_of(Feed ids, const PassTokens& tokens,
                                                              const Batch& batch) {
  VIADUCT_CHECK(ShapeError, cross_ != nullptr,
                "generate: a model with an encoder, whose sequences have no inputs (start_with)");
  auto rows = std::make_shared<EncoderRows>();
  std::vector<int64_t> begin;  // sequences that begin in this pass
  PassTokens encoded;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto sequence = static_cast<int64_t>(i);
    const int64_t queries = tokens.offsets[i + 1] - tokens.offsets[i];
    rows->pairs += static_cast<double>(queries) * static_cast<double>(cross_->length(sequence));
    if (ids[i].empty() || length(sequence) > 0) continue;
    begin.push_back(sequence);
    for (size_t t = 0; t < inputs_[i].size(); ++t)
      encoded.add(inputs_[i][t], static_cast<int64_t>(t));
    encoded.end_run();
  }
  if (!begin.empty()) {
    const int64_t parts = stream_parts();
    // A document of its own, which nothing attends to.
    for (int64_t filling = filling_of(encoded.tokens(), parts); filling > 0; --filling)
      encoded.add(0, 0);
    encoded.end_run();
    rows->rows = upload_tokens(device_, encoded, parts, stream_part());
  }
  cross_->begin_step(std::move(begin));
  rows->q_offsets = batch.document_offsets;
  rows->kv_offsets = cross_->offsets();
  rows->max_queries = tokens.longest;
  rows->max_keys = cross_->longest();
  return rows;
}

}  // namespace viaduct
