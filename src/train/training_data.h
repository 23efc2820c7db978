#pragma once
// The training and validation samples of a run, as micro-batches.

#include <memory>

#include "data/sample.h"
#include "data/sampler.h"
#include "train/host_batch.h"
#include "train/setup.h"

namespace viaduct {

class TrainingData {
 public:
  /// Opens the data sets that the configuration names and checks that their tokens fit the model.
  /// ConfigError if there is none.
  TrainingData(const RunSetup& setup, ThreadPool& pool);

  int64_t micro_batches() const { return micro_batches_; }
  /// Micro-batch `index` of the global batch that begins at sample `consumed`.
  HostBatch train(int64_t consumed, int64_t index) const;

  bool has_validation() const { return validation_ != nullptr; }
  /// Micro-batches of an evaluation: eval_iters global batches, the same samples each time.
  int64_t validation_micro_batches() const { return validation_micro_batches_; }
  HostBatch validation(int64_t index) const;

 private:
  std::shared_ptr<const SampleSource> training_, validation_;
  int64_t micro_batch_size_ = 1, micro_batches_ = 1, validation_micro_batches_ = 0;
};

}  // namespace viaduct
