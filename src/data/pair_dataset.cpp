#include "data/pair_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "data/pair_row.h"
#include "data/token_record.h"

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

/// `viaduct data chat --train-on all` marks a text from its second token on, whatever the answer.
void refuse_whole_texts(const IndexedDataset& dataset) {
  const auto record = read_token_record(dataset);
  if (!record || !record->conversations) return;
  const std::string learned =
      ", " + record->conversations->train_on + ",";  // a list of merged sets
  VIADUCT_CHECK(
      ConfigError, learned.find(", all,") == std::string::npos,
      "dataset {}: made with viaduct data chat --train-on {}, whose mask does not say where "
      "an answer begins, as rows for an encoder need; expected --train-on completion",
      dataset.prefix(), record->conversations->train_on);
}

PairLengths longer(const PairLengths& a, const PairLengths& b) {
  return {std::max(a.input, b.input), std::max(a.answer, b.answer)};
}

}  // namespace

void for_each_pair(const IndexedDataset& dataset, const ScoreMask& mask, DocumentRange range,
                   std::optional<int32_t> end_token,
                   FunctionRef<void(const PairLengths& lengths)> found) {
  const auto end = [&](int32_t token) { return end_token && token != *end_token ? 1 : 0; };
  std::vector<int32_t> tokens, scored;
  for (int64_t i = range.first; i < range.end; ++i) {
    tokens.resize(static_cast<size_t>(dataset.sequence_length(i)));
    if (tokens.empty()) continue;
    scored.resize(tokens.size());
    dataset.read(i, 0, std::span<int32_t>(tokens));
    mask.read(i, 0, scored);
    const auto first = std::find(scored.begin(), scored.end(), 1) - scored.begin();
    PairLengths lengths;
    lengths.input = first > 0 ? first + end(tokens[static_cast<size_t>(first) - 1])
                              : static_cast<int64_t>(end_token.has_value());
    const auto all = static_cast<std::ptrdiff_t>(tokens.size());
    if (first < all) lengths.answer = all - first + end(tokens.back());
    found(lengths);
  }
  dataset.check_read();
}

PairLengths longest_of_pairs(const std::string& prefix, std::optional<int32_t> end_token) {
  auto dataset = std::make_shared<const IndexedDataset>(prefix);
  const ScoreMask mask(dataset, std::make_shared<const IndexedDataset>(mask_prefix(prefix)));
  PairLengths longest;
  for_each_pair(*dataset, mask, {0, dataset->sequence_count()}, end_token,
                [&](const PairLengths& lengths) { longest = longer(longest, lengths); });
  return longest;
}

PairDataset::PairDataset(std::shared_ptr<const IndexedDataset> dataset,
                         std::shared_ptr<const IndexedDataset> mask, Split split,
                         DocumentRange range, std::optional<int64_t> num_samples, int64_t length,
                         const PairSettings& settings, uint32_t random_seed,
                         const IndexStorage& storage, std::optional<int64_t> vocabulary_size)
    : length_(length),
      settings_(settings),
      rows_(dataset, mask, split, range, num_samples, row_settings(*dataset, range, random_seed),
            storage, vocabulary_size) {
  refuse_whole_texts(*dataset);
  if (!storage.fast_cache_load) check_lengths(ScoreMask(dataset, mask));
}

void PairDataset::check_lengths(const ScoreMask& mask) const {
  int64_t overlong = 0, without = 0, blank = 0;
  PairLengths longest;
  for_each_pair(dataset(), mask, documents(), settings_.end_token, [&](const PairLengths& lengths) {
    if (lengths.answer == 0) {
      ++without;
      return;
    }
    if (lengths.input == 0) ++blank;
    longest = longer(longest, lengths);
    if (lengths.input > settings_.encoder_length || lengths.answer > length_) ++overlong;
  });
  VIADUCT_CHECK(ConfigError, without == 0,
                "dataset {}: {} without a learned token: there is no answer for the decoder",
                dataset().prefix(), counted(without, "pair"));
  VIADUCT_CHECK(
      ConfigError, blank == 0,
      "dataset {}: {} without an input: the first token is learned, and the model has no "
      "end token that could be the encoder's row; expected a token in front of the answer",
      dataset().prefix(), counted(blank, "pair"));
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
  const bool blank = rows_.scores_first(index);
  while (!blank && first < used && whole.loss_mask[first] == 0) ++first;
  if (!blank) ++first;
  VIADUCT_CHECK(IoError, first < used, "dataset {}: row {}: no token of it is learned",
                dataset().prefix(), index);
  const auto at = [](size_t place) { return static_cast<std::ptrdiff_t>(place); };
  const auto ended = [&](size_t begin, size_t end) {
    std::vector<int32_t> tokens(whole.tokens.begin() + at(begin), whole.tokens.begin() + at(end));
    if (settings_.end_token && (tokens.empty() || tokens.back() != *settings_.end_token))
      tokens.push_back(*settings_.end_token);
    return tokens;
  };
  const std::vector<int32_t> input = ended(0, first), answer = ended(first, used);
  const auto length = static_cast<size_t>(length_);
  VIADUCT_CHECK(IoError,
                !input.empty() && static_cast<int64_t>(input.size()) <= settings_.encoder_length &&
                    answer.size() <= length,
                "dataset {}: row {}: an input of {} tokens and an answer of {}, but rows have {} "
                "(model.encoder_seq_length) and {} (model.seq_length)",
                dataset().prefix(), index, input.size(), answer.size(), settings_.encoder_length,
                length_);
  fill_pair(settings_, length_, input, answer, sample);
  for (size_t t = blank ? 1 : 0; first + t < used; ++t)
    sample.loss_mask[t] = whole.loss_mask[first + t - 1];
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
