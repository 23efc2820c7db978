#include "data/dataset_builder.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/blend.h"
#include "data/blended_dataset.h"
#include "data/gpt_dataset.h"
#include "data/mock_dataset.h"

namespace viaduct {

DatasetBuilder::DatasetBuilder(DatasetConfig config, std::optional<int64_t> vocabulary_size)
    : config_(std::move(config)),
      vocabulary_size_(vocabulary_size),
      settings_{config_.sequence_length.value_or(0), config_.reset_position_ids,
                config_.reset_attention_mask, config_.eod_mask_loss, config_.eod_id.value_or(-1)} {
  std::vector<std::string> problems = dataset_config_problems(config_);
  if (config_.mock && !vocabulary_size_)
    problems.push_back("dataset.mock needs a model: its vocabulary bounds the tokens");
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

std::shared_ptr<const IndexedDataset> DatasetBuilder::open(const std::string& prefix) {
  std::shared_ptr<const IndexedDataset>& file = files_[prefix];
  if (!file) file = std::make_shared<const IndexedDataset>(prefix);
  return file;
}

std::shared_ptr<const IndexedDataset> DatasetBuilder::opened(const std::string& prefix) const {
  const auto file = files_.find(prefix);
  return file == files_.end() ? nullptr : file->second;
}

std::shared_ptr<const SampleSource> DatasetBuilder::build(Split split,
                                                          std::optional<int64_t> num_samples) {
  if (config_.mock) {
    // Each split its own numbers, or validation would measure what was trained on.
    const uint64_t seed =
        static_cast<uint64_t>(config_.random_seed) + (static_cast<uint64_t>(split) << 32);
    return std::make_shared<MockDataset>(num_samples.value_or(std::numeric_limits<int64_t>::max()),
                                         *vocabulary_size_, seed, settings_);
  }
  const bool per_split = config_.blend_per_split.has_value();
  const auto& entries =
      per_split ? (*config_.blend_per_split)[static_cast<size_t>(split)] : config_.blend;
  if (!entries) return nullptr;
  const auto fractions = per_split ? std::array<double, 2>{0.0, 1.0}
                                   : parse_split(config_.split)[static_cast<size_t>(split)];
  if (!fractions) return nullptr;
  const Blend blend = parse_blend(*entries);
  // Megatron goes through a blend for one data set with a weight, unless it is one of the lists per
  // split.
  if (blend.prefixes.size() == 1 && (per_split || !blend.weights)) {
    return build_one(blend.prefixes[0], split, *fractions, num_samples);
  }
  return build_blend(blend, split, *fractions, num_samples);
}

std::shared_ptr<const SampleSource> DatasetBuilder::build_one(
    const std::string& prefix, Split split, const std::array<double, 2>& fractions,
    std::optional<int64_t> num_samples) {
  const auto file = open(prefix);
  const DocumentRange range = split_range(fractions, file->sequence_count());
  if (num_samples == 0 && range.size() == 0) return nullptr;
  return std::make_shared<GptDataset>(file, split, range, num_samples,
                                      static_cast<uint32_t>(config_.random_seed), settings_,
                                      vocabulary_size_);
}

std::shared_ptr<const SampleSource> DatasetBuilder::build_blend(
    const Blend& blend, Split split, const std::array<double, 2>& fractions,
    std::optional<int64_t> num_samples) {
  if (num_samples == 0) return nullptr;
  VIADUCT_CHECK(ConfigError, num_samples || !blend.weights,
                "a blend with weights needs the number of {} samples to draw; none is given",
                split_name(split));
  const std::vector<double> weights =
      blend.weights ? normalize_weights(*blend.weights) : std::vector<double>{};
  std::vector<std::shared_ptr<const SampleSource>> sources;
  std::vector<int64_t> sizes;
  int64_t size = 0;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    std::optional<int64_t> wanted;
    if (blend.weights) {
      size += blend_share(weights[i], *num_samples, 0.0);
      wanted = blend_share(weights[i], *num_samples, config_.mid_level_dataset_surplus);
    }
    sources.push_back(build_one(blend.prefixes[i], split, fractions, wanted));
    sizes.push_back(sources.back()->size());
    VIADUCT_CHECK(ConfigError, sizes.back() > 0,
                  "dataset {}: its {} split has too few tokens for one sample of {} + 1, so it "
                  "cannot be part of a blend",
                  blend.prefixes[i], split_name(split), settings_.sequence_length);
  }
  BlendIndex index;
  if (blend.weights) {
    index = build_blend_index(weights, size);
  } else if (num_samples) {
    size = std::min(*num_samples, std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    index = build_blend_index(std::vector<double>(sizes.begin(), sizes.end()), size);
  } else {
    index = build_exhaustive_blend_index(sizes);
  }
  return std::make_shared<BlendedDataset>(std::move(sources), blend.prefixes, std::move(index));
}

}  // namespace viaduct
