#include "data/pair_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace viaduct {
namespace {

/// Rows that hold any conversation of the range, one each.
ConversationRowSettings row_settings(const IndexedDataset& dataset, DocumentRange range,
                                     uint32_t random_seed) {
  ConversationRowSettings settings;
  settings.packing.row_tokens = 1;
  for (int64_t i = range.first; i < range.end; ++i)
    settings.packing.row_tokens =
        std::max<int64_t>(settings.packing.row_tokens, dataset.sequence_length(i));
  settings.random_seed = random_seed;
  return settings;
}

/// `tokens` and padding up to `length` places.
std::vector<int32_t> padded(std::vector<int32_t> tokens, int64_t length, int32_t padding) {
  tokens.resize(static_cast<size_t>(length), padding);
  return tokens;
}

}  // namespace

PairDataset::PairDataset(std::shared_ptr<const IndexedDataset> dataset,
                         std::shared_ptr<const IndexedDataset> mask, Split split,
                         DocumentRange range, std::optional<int64_t> num_samples, int64_t length,
                         const PairSettings& settings, uint32_t random_seed,
                         const IndexStorage& storage, std::optional<int64_t> vocabulary_size)
    : length_(length),
      settings_(settings),
      rows_(dataset, mask, split, range, num_samples, row_settings(*dataset, range, random_seed),
            storage, vocabulary_size) {
  if (!storage.fast_cache_load) check_lengths(ScoreMask(dataset, mask));
}

PairDataset::Lengths PairDataset::lengths_of(int64_t tokens, int64_t input, int32_t last_of_input,
                                             int32_t last) const {
  const auto end = [&](int32_t token) {
    return settings_.end_token && token != *settings_.end_token ? 1 : 0;
  };
  return {input + end(last_of_input), tokens - input + end(last)};
}

void PairDataset::check_lengths(const ScoreMask& mask) const {
  const DocumentRange range = documents();
  int64_t overlong = 0, without = 0;
  Lengths longest;
  std::vector<int32_t> tokens, scored;
  for (int64_t i = range.first; i < range.end; ++i) {
    tokens.resize(static_cast<size_t>(dataset().sequence_length(i)));
    if (tokens.empty()) continue;
    scored.resize(tokens.size());
    dataset().read(i, 0, std::span<int32_t>(tokens));
    mask.read(i, 0, scored);
    const auto first = std::find(scored.begin() + 1, scored.end(), 1) - scored.begin();
    if (first >= static_cast<std::ptrdiff_t>(tokens.size())) {
      ++without;
      continue;
    }
    const Lengths lengths = lengths_of(static_cast<int64_t>(tokens.size()), first,
                                       tokens[static_cast<size_t>(first) - 1], tokens.back());
    longest = {std::max(longest.input, lengths.input), std::max(longest.answer, lengths.answer)};
    if (lengths.input > settings_.encoder_length || lengths.answer > length_) ++overlong;
  }
  dataset().check_read();
  VIADUCT_CHECK(ConfigError, without == 0,
                "dataset {}: {} without a learned token: there is no answer for the decoder",
                dataset().prefix(), counted(without, "pair"));
  VIADUCT_CHECK(ConfigError, overlong == 0,
                "dataset {}: {} longer than rows: the longest input has {} tokens, for "
                "model.encoder_seq_length = {}, and the longest answer {}, for model.seq_length = "
                "{}; expected longer rows, or shorter texts (viaduct data chat --max-length)",
                dataset().prefix(), counted(overlong, "pair is", "pairs are"), longest.input,
                settings_.encoder_length, longest.answer, length_);
}

void PairDataset::get(int64_t index, Sample& sample) const {
  const Sample whole = rows_.get(index);
  size_t used = whole.padding.size(), first = 0;
  while (used > 0 && whole.padding[used - 1] != 0) --used;
  // Position t is scored if its token t + 1 is.
  while (first < used && whole.loss_mask[first] == 0) ++first;
  ++first;
  VIADUCT_CHECK(IoError, first < used, "dataset {}: row {}: no token of it is learned",
                dataset().prefix(), index);
  const auto at = [](size_t place) { return static_cast<std::ptrdiff_t>(place); };
  const auto ended = [&](size_t begin, size_t end) {
    std::vector<int32_t> tokens(whole.tokens.begin() + at(begin), whole.tokens.begin() + at(end));
    if (settings_.end_token && tokens.back() != *settings_.end_token)
      tokens.push_back(*settings_.end_token);
    return tokens;
  };
  const std::vector<int32_t> input = ended(0, first), answer = ended(first, used);
  const auto length = static_cast<size_t>(length_);
  VIADUCT_CHECK(
      IoError,
      static_cast<int64_t>(input.size()) <= settings_.encoder_length && answer.size() <= length,
      "dataset {}: row {}: an input of {} tokens and an answer of {}, but rows have {} "
      "(model.encoder_seq_length) and {} (model.seq_length)",
      dataset().prefix(), index, input.size(), answer.size(), settings_.encoder_length, length_);
  sample.encoder_tokens = padded(input, settings_.encoder_length, settings_.padding_token);
  sample.encoder_used = static_cast<int64_t>(input.size());
  sample.labels = padded(answer, length_, settings_.padding_token);
  sample.tokens.assign(1, settings_.start_token);
  sample.tokens.insert(sample.tokens.end(), sample.labels.begin(), sample.labels.end() - 1);
  sample.loss_mask.assign(length, 0.0f);
  for (size_t t = 0; t < answer.size(); ++t)
    sample.loss_mask[t] = first + t < used ? whole.loss_mask[first + t - 1] : 1.0f;
  sample.position_ids.resize(length);
  for (size_t t = 0; t < length; ++t) sample.position_ids[t] = static_cast<int32_t>(t);
  sample.cu_seqlens = {0, static_cast<int32_t>(length_)};
  sample.padding.assign(length, 0);
  std::fill(sample.padding.begin() + at(answer.size()), sample.padding.end(), uint8_t{1});
}

MockPairDataset::MockPairDataset(int64_t size, int64_t vocabulary_size, uint64_t seed,
                                 const RowSettings& settings, const PairSettings& pairs)
    : settings_(pairs),
      inputs_(size, vocabulary_size, seed + 1,
              {.sequence_length = pairs.encoder_length, .eod_id = -1}),
      answers_(size, vocabulary_size, seed,
               {.sequence_length = settings.sequence_length, .eod_id = -1}) {}

void MockPairDataset::get(int64_t index, Sample& sample) const {
  sample.encoder_tokens = inputs_.get(index).tokens;
  sample.encoder_used = encoder_length();
  answers_.get(index, sample);
  sample.tokens.front() = settings_.start_token;
}

}  // namespace viaduct
