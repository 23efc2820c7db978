#include "data/span_dataset.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/units.h"
#include "data/pair_row.h"
#include "data/row_draws.h"

namespace viaduct {
namespace {

SpanLengths checked_lengths(const GptIndexRequest& request, int64_t length,
                            const PairSettings& settings, const SpanNoise& noise,
                            std::optional<int64_t> vocabulary_size) {
  const std::string& prefix = request.dataset->prefix();
  VIADUCT_CHECK(
      ConfigError, settings.sentinels.has_value(),
      "dataset {}: a text without a mask, of which a model with an encoder says the "
      "spans that its input leaves out, and there are no sentinels for them; expected a "
      "tokenizer with <extra_id_0>, <extra_id_1>, …, or tokenizer.vocab_extra_ids=100, or "
      "pairs of input and answer, as viaduct data chat makes them",
      prefix);
  constexpr int64_t kLeast = 3;  // a token, a sentinel and an end
  VIADUCT_CHECK(ConfigError, settings.encoder_length >= kLeast,
                "model.encoder_seq_length: {}, but a corrupted text has {} tokens or more",
                settings.encoder_length, kLeast);
  const SpanLengths lengths =
      span_lengths(settings.encoder_length, settings.end_token ? 1 : 0, noise);
  VIADUCT_CHECK(
      ConfigError, lengths.target <= length,
      "model.seq_length: {}, but the decoder says up to {} tokens of the texts of {} that "
      "fill model.encoder_seq_length = {} (dataset.masking_probability = {}, "
      "mean_noise_span_length = {}); expected {} or more",
      length, lengths.target, lengths.tokens, settings.encoder_length, noise.density,
      noise.mean_length, lengths.target);
  VIADUCT_CHECK(ConfigError, lengths.spans <= settings.sentinels->count,
                "dataset.mean_noise_span_length: {} makes {} spans of a text of {} tokens, but "
                "there {} {}; expected longer spans, a shorter model.encoder_seq_length, or {}",
                noise.mean_length, lengths.spans, lengths.tokens,
                settings.sentinels->count == 1 ? "is" : "are",
                counted(settings.sentinels->count, "sentinel"),
                settings.sentinels->of_tokenizer
                    ? fmt::format("a tokenizer whose tokens <extra_id_0> to <extra_id_{}> have ids "
                                  "that go down by one from token {}",
                                  lengths.spans - 1, settings.sentinels->first)
                    : fmt::format("tokenizer.vocab_extra_ids={}", lengths.spans));
  VIADUCT_CHECK(ConfigError, !vocabulary_size || settings.sentinels->first < *vocabulary_size,
                "dataset {}: the first sentinel is token {}, but the model's vocabulary has {}",
                prefix, settings.sentinels->first, vocabulary_size.value_or(0));
  return lengths;
}

}  // namespace

SpanDataset::SpanDataset(GptIndexRequest request, const IndexStorage& storage, int64_t length,
                         const PairSettings& settings, const SpanConfig& config,
                         std::optional<int64_t> vocabulary_size)
    : length_(length),
      settings_(settings),
      noise_{config.masking_probability, config.mean_noise_span_length},
      short_share_(config.short_sequence_probability),
      lengths_(checked_lengths(request, length, settings, noise_, vocabulary_size)),
      key_(philox_key(
          {request.random_seed, hash64("data.spans." + std::string(split_name(request.split)))})) {
  request.sequence_length = lengths_.tokens;
  RowSettings rows;
  rows.sequence_length = lengths_.tokens;
  rows_ = std::make_unique<const GptDataset>(std::move(request), storage, rows, vocabulary_size);
}

void SpanDataset::get(int64_t index, Sample& sample) const {
  rows_->get(index, sample);
  RowDraws draws(key_, rows_->index().shuffled(index));
  auto tokens = static_cast<size_t>(lengths_.tokens);
  if (draws.happens(short_share_)) tokens = 2 + draws.up_to(tokens - 2);
  const std::vector<uint8_t> noise =
      random_spans_noise_mask(static_cast<int64_t>(tokens), noise_, draws);
  CorruptedText text = corrupt_spans(std::span<const int32_t>(sample.tokens).first(tokens), noise,
                                     settings_.sentinels->first);
  if (settings_.end_token) {
    text.input.push_back(*settings_.end_token);
    text.target.push_back(*settings_.end_token);
  }
  fill_pair(settings_, length_, text.input, text.target, sample);
}

}  // namespace viaduct
