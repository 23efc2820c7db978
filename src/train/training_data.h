#pragma once
// The training and validation samples of a run, as micro-batches of one data-parallel rank.

#include <memory>
#include <vector>

#include "data/dataset_fingerprint.h"
#include "data/sample.h"
#include "data/sampler.h"
#include "train/host_batch.h"
#include "train/setup.h"

namespace viaduct {

class TrainingData {
 public:
  /// Opens the data sets that the configuration names and checks that their tokens fit the model.
  /// ConfigError if there is none. All ranks with the same place among `dp_size` data-parallel
  /// ranks read the same rows.
  TrainingData(const RunSetup& setup, ThreadPool& pool, int dp_size = 1, int dp_rank = 0);

  /// Micro-batches that this rank has of a global batch of `rows`.
  int64_t micro_batches(int64_t rows) const { return micro_batch_count(rows, place_); }
  /// Micro-batch `index` of the global batch that begins at sample `consumed`.
  HostBatch train(int64_t consumed, int64_t index) const;

  /// What a checkpoint remembers of the files that are read, in the order of the configuration.
  std::vector<DatasetFingerprint> fingerprints() const;

  bool has_validation() const { return validation_ != nullptr; }
  /// Micro-batches of an evaluation: eval_iters full global batches, the same samples each time.
  int64_t validation_micro_batches() const { return validation_micro_batches_; }
  HostBatch validation(int64_t index) const;

 private:
  std::vector<std::shared_ptr<const IndexedDataset>> files_;
  std::shared_ptr<const SampleSource> training_, validation_;
  MicroBatchPlace place_;
  int64_t validation_micro_batches_ = 0;
};

}  // namespace viaduct
