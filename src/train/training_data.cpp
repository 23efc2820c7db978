#include "train/training_data.h"

#include "base/error.h"
#include "data/dataset_builder.h"
#include "data/vocabulary_check.h"
#include "train/run_length.h"
#include "train/sample_batch.h"

namespace viaduct {

TrainingData::TrainingData(const RunSetup& setup, ThreadPool& pool, int dp_size, int dp_rank)
    : place_{setup.config.train.micro_batch_size, dp_size, dp_rank} {
  const RunConfig& config = setup.config;
  const int64_t global = batch_schedule(config).full();
  const int64_t micro_batches_of_all = micro_batches(global);
  DatasetBuilder builder(config.dataset, setup.model.vocabulary);
  check_vocabulary(builder, setup.model.vocabulary, pool);
  training_ = builder.build(Split::train, training_rows(config));
  VIADUCT_CHECK(
      ConfigError, training_ != nullptr || config.train.skip_train,
      "dataset: no training data (set dataset.blend, dataset.blend_per_split or dataset.mock)");
  if (config.validation.eval_iters > 0) {
    validation_ = builder.build(Split::valid, config.validation.eval_iters * global);
    validation_micro_batches_ = config.validation.eval_iters * micro_batches_of_all;
  }
  if (config.dataset.mock) return;
  for (const std::string& prefix : dataset_prefixes(config.dataset)) {
    if (auto file = builder.opened(prefix)) files_.push_back(std::move(file));
  }
}

std::vector<DatasetFingerprint> TrainingData::fingerprints() const {
  std::vector<DatasetFingerprint> all;
  for (const auto& file : files_) all.push_back(fingerprint(*file));
  return all;
}

HostBatch TrainingData::train(int64_t consumed, int64_t index) const {
  const Sampler sampler(training_->size());
  return read_batch(*training_, micro_batch_rows(sampler, consumed, index, place_));
}

HostBatch TrainingData::validation(int64_t index) const {
  const Sampler sampler(validation_->size(), Sampler::AtEnd::wrap);
  return read_batch(*validation_, micro_batch_rows(sampler, 0, index, place_));
}

}  // namespace viaduct
