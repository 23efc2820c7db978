#pragma once
// Builds the source of samples of each split from the `dataset` section, as Megatron's
// BlendedMegatronDatasetBuilder does.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/blended_dataset.h"
#include "data/dataset_config.h"
#include "data/index_cache.h"
#include "data/index_store.h"
#include "data/indexed_dataset.h"
#include "data/row_images.h"
#include "data/sample.h"
#include "data/split.h"
#include "data/split_choice.h"

namespace viaduct {

class FileDataset;
class FillInMiddle;
struct GptIndexRequest;
class Tokenizer;

class DatasetBuilder {
 public:
  /// `vocabulary_size` of the model: upper bound of mock tokens (required for them) and of the
  /// tokens in files. `tokenizer`: required if fim_rate > 0; must outlive the sources. `images`: of
  /// a model that reads images; without it data sets with pictures are refused. ConfigError with
  /// all problems of the settings.
  explicit DatasetBuilder(DatasetConfig config,
                          std::optional<int64_t> vocabulary_size = std::nullopt,
                          const Tokenizer* tokenizer = nullptr, ImageOpener images = {});

  /// The samples of a split, at least `num_samples` of them (none: one epoch). Null if the settings
  /// give the split no data (weight 0, no blend of its own), or if it is empty and `num_samples` is
  /// 0. ConfigError with data set, split and sizes if samples are requested of an empty split.
  std::shared_ptr<const SampleSource> build(Split split, std::optional<int64_t> num_samples);

  /// The data sets of a split separately, each with at least `num_samples` samples (none: one
  /// epoch): a list without weights of `blend_per_split`. ConfigError for any other form.
  std::vector<std::shared_ptr<const SampleSource>> build_each(Split split,
                                                              std::optional<int64_t> num_samples);
  /// Whether every data set of the split has at least one prediction; false if the settings give
  /// the split no data. Mock data exist for training and validation.
  bool has_data(Split split);
  /// Whether `source`, made by this builder, would keep its order of rows if `num_samples` were
  /// requested instead.
  bool same_order(const SampleSource& source, Split split, int64_t num_samples) const;

  /// A file by its prefix, opened once. Safe to call from several threads at once.
  std::shared_ptr<const IndexedDataset> open(const std::string& prefix);
  /// The same if it is already open; null otherwise.
  std::shared_ptr<const IndexedDataset> opened(const std::string& prefix) const;
  const DatasetConfig& config() const { return config_; }

 private:
  std::shared_ptr<const SampleSource> build_one(const std::string& prefix, Split split,
                                                const std::array<double, 2>& fractions,
                                                std::optional<int64_t> num_samples);
  std::shared_ptr<const SampleSource> build_conversations(
      std::shared_ptr<const IndexedDataset> file, Split split, DocumentRange range,
      std::optional<int64_t> num_samples);
  std::shared_ptr<const SampleSource> build_pairs(std::shared_ptr<const IndexedDataset> file,
                                                  Split split, DocumentRange range,
                                                  std::optional<int64_t> num_samples);
  /// For the stream of a file's documents, in rows of the settings.
  GptIndexRequest stream_request(std::shared_ptr<const IndexedDataset> file, Split split,
                                 DocumentRange range, std::optional<int64_t> num_samples) const;
  /// The pictures of a data set; null: it has none, or they are left out.
  std::shared_ptr<const RowImages> open_images(const IndexedDataset& file) const;
  IndexStorage storage() const;
  std::shared_ptr<const SampleSource> build_blend(const SplitChoice& choice, Split split,
                                                  std::optional<int64_t> num_samples);
  /// Where the index of a blend is kept; none: in memory. `shares` is empty if all samples are
  /// taken.
  std::optional<IndexCacheEntry> blend_files(const BlendedDataset::Sources& sources, Split split,
                                             const std::vector<double>& shares, int64_t size) const;
  /// Sequentially, or on num_dataset_builder_threads threads; throws the first error in list order.
  std::vector<std::shared_ptr<const SampleSource>> build_all(
      const SplitChoice& choice, Split split,
      const std::vector<std::optional<int64_t>>& num_samples);

  DatasetConfig config_;
  std::optional<int64_t> vocabulary_size_;
  ImageOpener images_;
  /// One a split; null without fill in the middle.
  std::array<std::shared_ptr<const FillInMiddle>, kSplitCount> fill_in_middle_;
  RowSettings settings_;
  mutable std::mutex mutex_;  // of files_
  std::map<std::string, std::shared_ptr<const IndexedDataset>> files_;
};

}  // namespace viaduct
