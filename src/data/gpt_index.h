#pragma once
// Megatron's order of reading one data set (its GPTDataset): which documents follow each other,
// where samples of S + 1 tokens begin in that stream, and in which order samples are taken.
// Bit-equal to Megatron for the same seed.

#include <cstdint>
#include <optional>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/split.h"

namespace viaduct {

/// Where a sample begins: a position in the document index, and a token offset in that document.
struct SampleStart {
  int64_t position = 0;
  int32_t offset = 0;
  bool operator==(const SampleStart&) const = default;
};

/// A permutation of samples, 4 bytes an entry while the samples can be counted so.
class ShuffleIndex {
 public:
  ShuffleIndex() = default;
  explicit ShuffleIndex(std::vector<uint32_t> entries) : narrow_(std::move(entries)) {}
  explicit ShuffleIndex(std::vector<int64_t> entries) : wide_(std::move(entries)) {}
  int64_t size() const {
    return static_cast<int64_t>(wide_.empty() ? narrow_.size() : wide_.size());
  }
  int64_t operator[](int64_t i) const {
    return wide_.empty() ? static_cast<int64_t>(narrow_[static_cast<size_t>(i)])
                         : wide_[static_cast<size_t>(i)];
  }

 private:
  std::vector<uint32_t> narrow_;
  std::vector<int64_t> wide_;
};

struct GptIndex {
  std::vector<int32_t>
      document_index;  ///< [epochs × sequences of the range], sequence numbers of the file
  std::vector<int64_t> positions;  ///< [samples + 1] and
  std::vector<int32_t>
      offsets;  ///< [samples + 1]: where samples begin; the last entry closes the last sample
  ShuffleIndex shuffle_index;  ///< [samples]
  int64_t tokens_per_epoch = 0, epochs = 0;

  int64_t samples() const { return shuffle_index.size(); }
  SampleStart start(int64_t sample) const {
    return {positions[static_cast<size_t>(sample)], offsets[static_cast<size_t>(sample)]};
  }
};

/// Builds the index for the sequences `range` of the file. `num_samples`: at least so many (whole
/// epochs are built); none means one epoch. Several epochs are shuffled together, the last one
/// apart if less than 80 % of it is needed. An empty range, or one without two tokens, is a
/// ConfigError that names file, split and sizes.
GptIndex build_gpt_index(const IndexedDataset& dataset, Split split, DocumentRange range,
                         std::optional<int64_t> num_samples, int64_t sequence_length,
                         uint32_t random_seed);

}  // namespace viaduct
