#pragma once
// Rows cut from the stream of documents of one indexed data set (Megatron's GPTDataset).

#include <cstdint>
#include <memory>
#include <optional>

#include "data/gpt_index.h"
#include "data/indexed_dataset.h"
#include "data/sample.h"

namespace viaduct {

class GptDataset final : public SampleSource {
 public:
  /// `num_samples`, `random_seed`: as in build_gpt_index. `vocabulary_size`: a token at or above it
  /// is an IoError when it is read; none: not checked.
  GptDataset(std::shared_ptr<const IndexedDataset> dataset, Split split, DocumentRange range,
             std::optional<int64_t> num_samples, uint32_t random_seed, const RowSettings& settings,
             std::optional<int64_t> vocabulary_size = std::nullopt);

  using SampleSource::get;
  int64_t size() const override { return index_.samples(); }
  int64_t sequence_length() const override { return settings_.sequence_length; }
  void get(int64_t index, Sample& sample) const override;

  const IndexedDataset& dataset() const { return *dataset_; }
  DocumentRange documents() const { return range_; }
  std::optional<int64_t> num_samples() const { return num_samples_; }
  const GptIndex& index() const { return index_; }

 private:
  std::shared_ptr<const IndexedDataset> dataset_;
  DocumentRange range_;
  std::optional<int64_t> num_samples_;
  RowSettings settings_;
  std::optional<int64_t> vocabulary_size_;
  GptIndex index_;
};

}  // namespace viaduct
