#pragma once
// Rows cut from the stream of documents of one indexed data set (Megatron's GPTDataset).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "data/file_dataset.h"
#include "data/gpt_index_store.h"
#include "data/index_store.h"
#include "data/sample.h"

namespace viaduct {

class FillInMiddle;

class GptDataset final : public FileDataset {
 public:
  /// `vocabulary_size`: a token at or above it is an IoError when it is read; none: not checked.
  /// `fill_in_middle`: transforms each row when it is read; null: none.
  GptDataset(GptIndexRequest request, IndexStorage storage, const RowSettings& settings,
             std::optional<int64_t> vocabulary_size = std::nullopt,
             std::shared_ptr<const FillInMiddle> fill_in_middle = nullptr);

  using SampleSource::get;
  int64_t size() const override { return stored_.samples(); }
  int64_t sequence_length() const override { return settings_.sequence_length; }
  void get(int64_t index, Sample& sample) const override;

  const IndexedDataset& dataset() const override { return *stored_.request().dataset; }
  DocumentRange documents() const override { return stored_.request().range; }
  std::optional<int64_t> num_samples() const override { return stored_.request().num_samples; }
  /// None if the cache is trusted: then the tokens were not counted.
  std::optional<int64_t> tokens_per_epoch() const override {
    return stored_.plan() ? std::optional(stored_.plan()->tokens_per_epoch) : std::nullopt;
  }
  const GptIndex& index() const { return stored_.get(); }
  /// Megatron's description of everything that determines the order of the rows.
  std::string description() const override { return stored_.description(); }
  bool same_order_for(std::optional<int64_t> num_samples) const override;

 private:
  /// Reads S + 1 tokens of the stream of documents from the start of sample `sample`.
  void read_stream(const GptIndex& index, int64_t sample, std::span<int32_t> row) const;

  RowSettings settings_;
  std::optional<int64_t> vocabulary_size_;
  std::shared_ptr<const FillInMiddle> fill_in_middle_;
  StoredGptIndex stored_;
};

}  // namespace viaduct
