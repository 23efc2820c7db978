#include "engine/text_batches.h"

#include <algorithm>

#include "base/error.h"
#include "engine/score_texts.h"
#include "nn/context_parallel/zigzag.h"

namespace viaduct {
namespace {

int64_t length_of(const TextToScore& text) {
  return static_cast<int64_t>(text.ids.size());
}

/// With the padding that the cut of documents adds.
int64_t padded(int64_t length, int cp) {
  const int64_t multiple = zigzag_multiple(cp);
  return (length + multiple - 1) / multiple * multiple;
}

void append_token(HostBatch& batch, int32_t id, int64_t position) {
  batch.token_index.push_back(batch.tokens());
  batch.ids.push_back(id);
  batch.positions.push_back(static_cast<int32_t>(position));
  batch.targets.push_back(-1);
  batch.loss_weight.push_back(0.0f);
}

}  // namespace

TextBatches::TextBatches(const std::vector<TextToScore>& texts, const TextBatchSettings& settings)
    : texts_(texts), settings_(settings) {
  int64_t used = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t tokens = length_of(texts[i]), taken = padded(tokens, settings.cp);
    VIADUCT_CHECK(ShapeError, tokens >= 1 && tokens <= settings.longest && taken <= settings.tokens,
                  "texts: one of {} tokens, expected 1 to {} in micro-batches of {}", tokens,
                  settings.longest, settings.tokens);
    if (first_.empty() || used + taken > settings.tokens) {
      first_.push_back(i);
      used = 0;
    }
    used += taken;
  }
}

TextBatches::Texts TextBatches::texts_of(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  if (at >= first_.size()) return {};
  return {first_[at], at + 1 < first_.size() ? first_[at + 1] : texts_.size()};
}

HostBatch TextBatches::batch(int64_t i) const {
  HostBatch batch;
  const Texts texts = texts_of(i);
  int64_t used = 0;
  for (size_t t = texts.begin; t < texts.end; ++t) {
    for (size_t p = 0; p < texts_[t].ids.size(); ++p)
      append_token(batch, texts_[t].ids[p], static_cast<int64_t>(p));
    batch.end_document();
    used += padded(length_of(texts_[t]), settings_.cp);
  }
  while (used < settings_.tokens) {
    const int64_t length = std::min(settings_.longest, settings_.tokens - used);
    for (int64_t p = 0; p < length; ++p) append_token(batch, 0, p);
    batch.end_document();
    used += padded(length, settings_.cp);
  }
  return batch;
}

std::vector<TokenTarget> TextBatches::targets(int64_t i) const {
  std::vector<TokenTarget> targets;
  const Texts texts = texts_of(i);
  int64_t begin = 0;
  for (size_t t = texts.begin; t < texts.end; ++t) {
    for (TokenTarget target : texts_[t].targets) {
      target.position += begin;
      targets.push_back(target);
    }
    begin += length_of(texts_[t]);
  }
  return targets;
}

}  // namespace viaduct
