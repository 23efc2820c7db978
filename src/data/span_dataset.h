#pragma once
// Rows for the pretraining of a model with an encoder: texts with spans left out, and the spans
// (data/span_corruption.h).

#include <memory>
#include <optional>
#include <string>

#include "data/gpt_dataset.h"
#include "data/pair_settings.h"
#include "data/span_config.h"
#include "data/span_corruption.h"

namespace viaduct {

/// The stream of documents of a data set, in the order of GptDataset, is cut into texts as long as
/// the encoder's rows have room for. A row depends on the seed, its split and its place in that
/// order alone.
class SpanDataset final : public FileDataset {
 public:
  /// `request`: without sequence_length, which follows. `length`: places of a row of the decoder.
  /// ConfigError without sentinels, with too few of them, and for rows of encoder or decoder that
  /// have no room.
  SpanDataset(GptIndexRequest request, const IndexStorage& storage, int64_t length,
              const PairSettings& settings, const SpanConfig& config,
              std::optional<int64_t> vocabulary_size);

  using SampleSource::get;
  int64_t size() const override { return rows_->size(); }
  int64_t sequence_length() const override { return length_; }
  int64_t encoder_length() const override { return settings_.encoder_length; }
  void get(int64_t index, Sample& sample) const override;

  const IndexedDataset& dataset() const override { return rows_->dataset(); }
  DocumentRange documents() const override { return rows_->documents(); }
  std::optional<int64_t> num_samples() const override { return rows_->num_samples(); }
  std::string description() const override { return rows_->description(); }
  bool same_order_for(std::optional<int64_t> num_samples) const override {
    return rows_->same_order_for(num_samples);
  }
  std::optional<int64_t> tokens_per_epoch() const override { return rows_->tokens_per_epoch(); }
  int64_t rows_per_epoch() const override {
    return tokens_per_epoch().value_or(0) / lengths_.tokens;
  }
  /// Of a whole row.
  const SpanLengths& lengths() const { return lengths_; }

 private:
  int64_t length_;
  PairSettings settings_;
  SpanNoise noise_;
  double short_share_;
  SpanLengths lengths_;
  uint64_t key_;
  std::unique_ptr<const GptDataset> rows_;
};

}  // namespace viaduct
