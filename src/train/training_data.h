#pragma once
// The samples of a run, for training, validation and test, as micro-batches of one data-parallel
// rank.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset_builder.h"
#include "data/dataset_fingerprint.h"
#include "data/sample.h"
#include "data/sampler.h"
#include "engine/evaluation.h"
#include "engine/host_batch.h"
#include "run/setup.h"
#include "train/data_use.h"

namespace viaduct {

/// Where a run begins that continues from a checkpoint.
struct DataStart {
  int64_t step = 0;              // steps that are done
  int64_t consumed_samples = 0;  // rows that they read
};

class TrainingData {
 public:
  /// Opens the data sets that the configuration names and checks that their tokens fit the model.
  /// ConfigError if there is none. All ranks with the same place among `dp_size` data-parallel
  /// ranks read the same rows. The data are made long enough for the steps that are left after
  /// `start`; ConfigError, with both numbers, if they end before these steps do.
  TrainingData(const RunSetup& setup, ThreadPool& pool, int dp_size = 1, int dp_rank = 0,
               const DataStart& start = {});

  /// This rank's number of micro-batches in a global batch of `rows`.
  int64_t micro_batches(int64_t rows) const { return micro_batch_count(rows, place_); }
  /// Micro-batch `index` of the global batch that begins at sample `consumed`.
  HostBatch train(int64_t consumed, int64_t index) const;

  /// Row `row` of that global batch, of any rank.
  HostBatch row(int64_t consumed, int64_t row) const;

  /// Data sets whose documents do not end where dataset.eod_id does (document_ends.h).
  std::vector<std::string> separator_warnings() const;
  /// As in template_warnings.h.
  std::vector<std::string> template_warnings(const std::filesystem::path& tokenizer) const;
  bool learns_a_template() const;

  /// The data sets that the run trains on, and how often it reads them (data_use.h).
  std::vector<DataUse> use() const;

  /// What the run's data sets of conversations hold (data_use.h), and the row at `consumed` as
  /// text.
  std::vector<std::string> conversation_texts() const;
  std::string row_text(int64_t consumed, const Tokenizer& tokenizer, bool colours) const;

  /// Fingerprints of the data files for checkpoints, in the order of the configuration.
  std::vector<DatasetFingerprint> fingerprints() const;

  /// Rows that the whole run reads: what its data are ordered for.
  int64_t rows_read() const { return rows_read_; }
  /// Whether training would read its rows in the same order if the run were `samples` long, with
  /// global batches of `global_batch_size` rows once they are full.
  bool same_order(int64_t samples, int64_t global_batch_size) const;

  /// The sets of an evaluation: one, all of them with validation.multiple_validation_sets, none
  /// without validation data. A set has eval_iters global batches, or with
  /// validation.full_validation each of its samples once.
  const std::vector<EvaluationSet>& validation_sets() const { return validation_; }
  /// The sets evaluated at the end of training; none without test data.
  const std::optional<EvaluationSet>& test_set() const { return test_; }
  /// What the loss of these sets is measured on (measured_on.h); "" for none.
  std::string validation_measured_on() const;
  /// Micro-batch `index` of a set (evaluation.h).
  HostBatch evaluation(const EvaluationSet& set, int64_t index) const {
    return evaluation_batch(set, index, place_);
  }
  /// This rank's place among those that read different rows.
  const MicroBatchPlace& place() const { return place_; }

 private:
  EvaluationSet evaluation_set(std::string name, std::shared_ptr<const SampleSource> source,
                               const ValidationConfig& config, int64_t global_batch_size) const;

  std::unique_ptr<DatasetBuilder> builder_;
  std::vector<std::shared_ptr<const IndexedDataset>> files_;
  std::shared_ptr<const SampleSource> training_;
  std::optional<Sampler> training_rows_;
  bool shuffles_ = false;  // rows come in an order of the sampler's
  int64_t rows_read_ = 0;  // by the whole run
  int64_t global_batch_size_ = 0;
  std::vector<EvaluationSet> validation_;
  std::optional<EvaluationSet> test_;
  MicroBatchPlace place_;
};

}  // namespace viaduct
