#pragma once
// From the settings of the `dataset` section to the source of samples of each split, as Megatron's
// BlendedMegatronDatasetBuilder does it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/dataset_config.h"
#include "data/indexed_dataset.h"
#include "data/sample.h"
#include "data/split.h"

namespace viaduct {

class DatasetBuilder {
 public:
  /// `vocabulary_size` of the model: bound of mock tokens (required for them) and of what files may
  /// hold. ConfigError with all problems of the settings.
  explicit DatasetBuilder(DatasetConfig config,
                          std::optional<int64_t> vocabulary_size = std::nullopt);

  /// The samples of a split, at least `num_samples` of them (none: one epoch). Null if the split
  /// has no data by the settings (weight 0, no blend of its own), or if it is empty and
  /// `num_samples` is 0. A ConfigError names data set, split and sizes where an empty split is
  /// asked for samples.
  std::shared_ptr<const SampleSource> build(Split split, std::optional<int64_t> num_samples);

  /// A file by its prefix, opened once.
  std::shared_ptr<const IndexedDataset> open(const std::string& prefix);
  /// The same if it was opened already; null otherwise.
  std::shared_ptr<const IndexedDataset> opened(const std::string& prefix) const;
  const DatasetConfig& config() const { return config_; }

 private:
  std::shared_ptr<const SampleSource> build_one(const std::string& prefix, Split split,
                                                const std::array<double, 2>& fractions,
                                                std::optional<int64_t> num_samples);
  std::shared_ptr<const SampleSource> build_blend(const Blend& blend, Split split,
                                                  const std::array<double, 2>& fractions,
                                                  std::optional<int64_t> num_samples);

  DatasetConfig config_;
  std::optional<int64_t> vocabulary_size_;
  RowSettings settings_;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> files_;
};

}  // namespace viaduct
