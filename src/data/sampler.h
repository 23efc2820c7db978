#pragma once
// Which rows make a global batch, and which of them each rank and micro-batch takes. The only state
// is the number of rows consumed so far, so a run resumes exactly, also with another micro-batch
// size or another number of ranks.

#include <cstdint>
#include <memory>
#include <vector>

namespace viaduct {

/// A row to read. `ordinal` counts the rows of the run in order of consumption: with the position
/// in the row it numbers tokens for random numbers, whatever the layout.
struct RowRef {
  int64_t ordinal = 0;
  int64_t index = 0;  ///< in the SampleSource
  bool operator==(const RowRef&) const = default;
};

/// Repeated passes: each epoch in another order, without the last rows that do not fill a global
/// batch. Epoch e has the order of torch.randperm with the seed `seed` + e.
struct EpochShuffle {
  int64_t global_batch_size = 1;
  uint64_t seed = 0;
};

class Sampler {
 public:
  /// At the end of the source: `error` (training data are built large enough) or start again from
  /// its beginning (validation).
  enum class AtEnd { error, wrap };

  explicit Sampler(int64_t source_size, AtEnd at_end = AtEnd::error);
  /// Epoch after epoch, without end. ConfigError if the source is smaller than a global batch.
  Sampler(int64_t source_size, const EpochShuffle& shuffle);

  /// Rows [consumed, consumed + count) of the run. ConfigError, with both numbers, past the end of
  /// the source. Safe to call from several threads at once.
  std::vector<RowRef> rows(int64_t consumed, int64_t count) const;

 private:
  struct Epochs;  // of a shuffled source: the permutation of the current epoch

  int64_t source_size_;
  AtEnd at_end_ = AtEnd::error;
  std::shared_ptr<Epochs> epochs_;
};

/// The permutation of 0 … size - 1 that torch.randperm gives on the CPU after
/// torch.manual_seed(seed).
std::vector<int64_t> torch_permutation(int64_t size, uint64_t seed);

/// The rows of one micro-batch of one data-parallel rank within a global batch that begins at
/// `consumed`: micro-batch m takes the next micro_batch_size · dp contiguous rows, and each rank
/// its part of them, as in Megatron.
struct MicroBatchPlace {
  int64_t micro_batch_size = 1;
  int64_t dp_size = 1, dp_rank = 0;
};
std::vector<RowRef> micro_batch_rows(const Sampler& sampler, int64_t consumed, int64_t micro_batch,
                                     const MicroBatchPlace& place);

/// Micro-batches that each rank runs for a global batch. ConfigError with the numbers if the batch
/// does not divide.
int64_t micro_batch_count(int64_t global_batch_size, const MicroBatchPlace& place);

}  // namespace viaduct
