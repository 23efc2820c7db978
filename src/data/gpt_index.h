#pragma once
// Megatron's order of reading one data set (its GPTDataset): the order of documents, where samples
// of S + 1 tokens begin in that stream, and the order of samples. Bit-equal to Megatron for the
// same seed.

#include <cstdint>
#include <optional>
#include <vector>

#include "data/index_array.h"
#include "data/indexed_dataset.h"
#include "data/split.h"

namespace viaduct {

/// Where a sample begins: a position in the document index, and a token offset in that document.
struct SampleStart {
  int64_t position = 0;
  int64_t offset = 0;
  bool operator==(const SampleStart&) const = default;
};

/// How large the index is, and how it is shuffled.
struct GptIndexPlan {
  int64_t tokens_per_epoch = 0, epochs = 1, samples = 0;
  int64_t documents = 0;  ///< entries of the document index: epochs × sequences of the range
  /// The leading entries, shuffled together; the rest (the last epoch) is shuffled separately.
  int64_t documents_together = 0, samples_together = 0;

  /// Shapes of document index, sample index and shuffle index.
  std::vector<IndexShape> shapes() const;
};

/// `num_samples`: at least this many (whole epochs are built); none means one epoch. Several epochs
/// are shuffled together, the last one separately if less than 80 % of it is needed. An empty
/// range, or one without two tokens, is a ConfigError that names file, split and sizes.
GptIndexPlan plan_gpt_index(const IndexedDataset& dataset, Split split, DocumentRange range,
                            std::optional<int64_t> num_samples, int64_t sequence_length);

/// The epochs of this many tokens that `num_samples` need, and whether the last is shuffled
/// separately. If both stay the same, so does the order of the samples.
struct EpochPlan {
  int64_t count = 1;
  bool last_apart = false;
  int64_t samples_before_last = 0;
};
EpochPlan plan_epochs(int64_t tokens_per_epoch, std::optional<int64_t> num_samples,
                      int64_t sequence_length);

/// Makes the three arrays for the sequences `range` of the file. In addition to what `sink` keeps,
/// it needs 4 bytes for each entry of the document index, then 4 (8 from 2^32 on) for each sample.
void build_gpt_index(const IndexedDataset& dataset, DocumentRange range, const GptIndexPlan& plan,
                     int64_t sequence_length, uint32_t random_seed, IndexSink& sink);

/// The three arrays.
class GptIndex {
 public:
  GptIndex() = default;
  /// ShapeError if their shapes do not fit each other.
  explicit GptIndex(std::vector<IndexArray> arrays);

  int64_t samples() const { return shuffle_.size(); }
  int64_t documents() const { return documents_.size(); }
  /// Sequence number of the file at a position of the document index.
  int64_t document(int64_t position) const { return documents_[position]; }
  /// Where sample `sample` begins; samples() closes the last one.
  SampleStart start(int64_t sample) const { return {starts_[2 * sample], starts_[2 * sample + 1]}; }
  /// The `i`-th sample in order of reading.
  int64_t shuffled(int64_t i) const { return shuffle_[i]; }

  const IndexArray& document_index() const { return documents_; }
  const IndexArray& sample_index() const { return starts_; }
  const IndexArray& shuffle_index() const { return shuffle_; }
  /// IoError if bytes of mapped arrays could not be read.
  void check_read() const;

 private:
  IndexArray documents_, starts_, shuffle_;
};

}  // namespace viaduct
