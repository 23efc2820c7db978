#include "train/training_data.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "data/document_ends.h"
#include "data/gpt_dataset.h"
#include "data/score_mask.h"
#include "data/vocabulary_check.h"
#include "engine/sample_batch.h"
#include "run/run_images.h"
#include "run/run_length.h"
#include "run/template_warnings.h"
#include "train/measured_on.h"

namespace viaduct {
namespace {

Sampler training_sampler(const DatasetConfig& config, int64_t rows, int64_t global_batch_size) {
  if (config.dataloader_type == DataOrder::single) return Sampler(rows);
  const bool seeded = config.dataloader_type == DataOrder::batch;
  return Sampler(rows, EpochShuffle{global_batch_size,
                                    seeded ? static_cast<uint64_t>(config.random_seed) : 0});
}

}  // namespace

TrainingData::TrainingData(const RunSetup& setup, ThreadPool& pool, int dp_size, int dp_rank,
                           const DataStart& start)
    : place_{setup.config.train.micro_batch_rows(), dp_size, dp_rank} {
  const RunConfig& config = setup.config;
  const int64_t global = batch_schedule(config).full();
  builder_ = std::make_unique<DatasetBuilder>(config.dataset, setup.model.vocabulary,
                                              setup.tokenizer ? &*setup.tokenizer : nullptr,
                                              run_images(setup));
  check_vocabulary(
      *builder_, setup.model.vocabulary, pool, kVocabularySample,
      {setup.tokenizer ? &*setup.tokenizer : nullptr, setup.tokenizer_folder.string()});
  rows_read_ = training_rows(config, start.step, start.consumed_samples);
  global_batch_size_ = global;
  training_ = builder_->build(Split::train, rows_read_);
  VIADUCT_CHECK(ConfigError, training_ != nullptr || config.train.skip_train, "{}",
                config.dataset.blend_per_split
                    ? "dataset.blend_per_split: its first entry, of training, is null"
                    : "dataset.split: " + config.dataset.split + " leaves training no data");
  if (training_) {
    shuffles_ = config.dataset.dataloader_type != DataOrder::single;
    training_rows_ = training_sampler(config.dataset, training_->size(), global);
    VIADUCT_CHECK(
        ConfigError,
        shuffles_ || config.train.skip_train || rows_read_ <= start.consumed_samples ||
            rows_read_ <= training_->size(),
        "dataset.blend: the run reads {}, and the data have {}: without weights each data set "
        "is read once; expected weights (dataset.blend=[0.5, A, 0.5, B]), with which data are read "
        "again, or a run of at most {} (train.train_iters)",
        counted(rows_read_, "row"), training_->size(),
        counted(batch_schedule(config).steps_within(training_->size(), start.consumed_samples),
                "more step"));
  }
  const ValidationConfig& validation = config.validation;
  if (validation.evaluates()) {
    const auto samples =
        validation.full_validation ? std::nullopt : std::optional(validation.eval_iters * global);
    const auto add = [&](std::string name, std::shared_ptr<const SampleSource> source) {
      if (source == nullptr) return;
      validation_.push_back(evaluation_set(std::move(name), std::move(source), validation, global));
    };
    if (validation.multiple_validation_sets) {
      const auto names = parse_blend(*(*config.dataset.blend_per_split)[1]).prefixes;
      const auto sources = builder_->build_each(Split::valid, samples);
      for (size_t i = 0; i < sources.size(); ++i) add(names[i], sources[i]);
    } else {
      add("", builder_->build(Split::valid, samples));
    }
    if (builder_->has_data(Split::test))
      test_ = evaluation_set("", builder_->build(Split::test, samples), validation, global);
  }
  if (config.dataset.mock) return;
  for (const std::string& prefix : dataset_prefixes(config.dataset)) {
    if (auto file = builder_->opened(prefix)) files_.push_back(std::move(file));
    if (auto mask = builder_->opened(mask_prefix(prefix))) files_.push_back(std::move(mask));
  }
}

EvaluationSet TrainingData::evaluation_set(std::string name,
                                           std::shared_ptr<const SampleSource> source,
                                           const ValidationConfig& config,
                                           int64_t global_batch_size) const {
  VIADUCT_CHECK(
      ConfigError, source->size() > 0,
      "dataset: the data {}to evaluate have too few tokens for one sample; expected more "
      "of them (dataset.split, dataset.blend_per_split), shorter rows (model.seq_length), "
      "or validation.eval_iters=0",
      name.empty() ? name : name + " ");
  if (!config.full_validation) {
    return {std::move(name), std::move(source), config.eval_iters * global_batch_size,
            config.eval_iters * micro_batches(global_batch_size)};
  }
  return each_row_once(std::move(name), std::move(source), place_);
}

bool TrainingData::same_order(int64_t samples, int64_t global_batch_size) const {
  if (!training_) return true;
  // A shuffled order depends on the number of rows to choose from, and on those of an epoch that do
  // not fill a batch.
  if (shuffles_ && global_batch_size != global_batch_size_) return false;
  const bool whole_epochs = dynamic_cast<const GptDataset*>(training_.get()) != nullptr;
  if (shuffles_ && !whole_epochs && samples != rows_read_) return false;
  return builder_->same_order(*training_, Split::train, samples);
}

std::vector<std::string> TrainingData::separator_warnings() const {
  return viaduct::separator_warnings(*builder_);
}

std::vector<std::string> TrainingData::template_warnings(
    const std::filesystem::path& tokenizer) const {
  return viaduct::template_warnings(*builder_, tokenizer);
}

bool TrainingData::learns_a_template() const {
  return viaduct::learns_a_template(*builder_);
}

std::vector<DataUse> TrainingData::use() const {
  return training_ ? data_use(*training_, rows_read_) : std::vector<DataUse>{};
}

std::vector<std::string> TrainingData::conversation_texts() const {
  return training_ ? viaduct::conversation_texts(*training_) : std::vector<std::string>{};
}

std::string TrainingData::row_text(int64_t consumed, const Tokenizer& tokenizer,
                                   bool colours) const {
  if (!training_rows_ || rows_read_ <= consumed) return "";
  return marked_text(training_->get(training_rows_->rows(consumed, 1).front().index), tokenizer,
                     colours);
}

std::vector<DatasetFingerprint> TrainingData::fingerprints() const {
  std::vector<DatasetFingerprint> all;
  for (const auto& file : files_) all.push_back(fingerprint(*file));
  return all;
}

std::string TrainingData::validation_measured_on() const {
  return viaduct::validation_measured_on(*builder_, validation_);
}

HostBatch TrainingData::row(int64_t consumed, int64_t row) const {
  return read_batch(*training_, training_rows_->rows(consumed + row, 1));
}

HostBatch TrainingData::train(int64_t consumed, int64_t index) const {
  return read_batch(*training_, micro_batch_rows(*training_rows_, consumed, index, place_));
}

}  // namespace viaduct
