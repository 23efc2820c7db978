#pragma once
// Rows for models with an encoder: an input, which is the encoder's row, and what the decoder is to
// say to it.

#include <memory>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "data/conversation_dataset.h"
#include "data/mock_dataset.h"
#include "data/pair_settings.h"

namespace viaduct {

/// Tokens that input and answer of a pair take with their end tokens; of several pairs the longest
/// of each.
struct PairLengths {
  int64_t input = 0, answer = 0;
};
/// Calls `found` with the lengths of each pair of the range that has tokens; 0 of the answer: it
/// has no learned token, and so there is none. 0 of the input: its first token is learned, and
/// there is no end token.
void for_each_pair(const IndexedDataset& dataset, const ScoreMask& mask, DocumentRange range,
                   std::optional<int32_t> end_token,
                   FunctionRef<void(const PairLengths& lengths)> found);
/// The longest input and the longest answer of all pairs of a data set and its mask.
PairLengths longest_of_pairs(const std::string& prefix, std::optional<int32_t> end_token);

/// From a data set with a mask (data/score_mask.h), as `viaduct data chat` makes it of prompts and
/// completions: tokens up to the first that is scored are the input, the others the answer, of
/// which those that the mask names are scored. Where the first token is scored the input is empty,
/// and the encoder's row has the end token alone. The decoder's row has the start token and the
/// answer without its last token. Rows in the order of ConversationDataset, one pair each.
class PairDataset final : public FileDataset {
 public:
  /// `length`: places of a row of the decoder. ConfigError if pairs of the range have a longer
  /// input or answer, or none: how many, and the longest. Also for the data of `viaduct data chat
  /// --train-on all`, whose mask says of no answer where it begins.
  PairDataset(std::shared_ptr<const IndexedDataset> dataset,
              std::shared_ptr<const IndexedDataset> mask, Split split, DocumentRange range,
              std::optional<int64_t> num_samples, int64_t length, const PairSettings& settings,
              uint32_t random_seed, const IndexStorage& storage,
              std::optional<int64_t> vocabulary_size);

  using SampleSource::get;
  int64_t size() const override { return rows_.size(); }
  int64_t sequence_length() const override { return length_; }
  int64_t encoder_length() const override { return settings_.encoder_length; }
  void get(int64_t index, Sample& sample) const override;

  const IndexedDataset& dataset() const override { return rows_.dataset(); }
  DocumentRange documents() const override { return rows_.documents(); }
  std::optional<int64_t> num_samples() const override { return rows_.num_samples(); }
  std::string description() const override { return rows_.description(); }
  bool same_order_for(std::optional<int64_t> num_samples) const override {
    return rows_.same_order_for(num_samples);
  }
  std::optional<int64_t> tokens_per_epoch() const override { return rows_.tokens_per_epoch(); }
  int64_t rows_per_epoch() const override { return rows_.rows_per_epoch(); }

 private:
  void check_lengths(const ScoreMask& mask) const;

  int64_t length_;
  PairSettings settings_;
  ConversationDataset rows_;
};

/// The same of random tokens, for benchmarks: full rows, all of whose tokens are scored.
class MockPairDataset final : public SampleSource {
 public:
  MockPairDataset(int64_t size, int64_t vocabulary_size, uint64_t seed, const RowSettings& settings,
                  const PairSettings& pairs);

  using SampleSource::get;
  int64_t size() const override { return answers_.size(); }
  int64_t sequence_length() const override { return answers_.sequence_length(); }
  int64_t encoder_length() const override { return inputs_.sequence_length(); }
  void get(int64_t index, Sample& sample) const override;

 private:
  PairSettings settings_;
  MockDataset inputs_, answers_;
};

}  // namespace viaduct
