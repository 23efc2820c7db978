#pragma once
// Rows of conversations, the sequences of an indexed data set with a mask (score_mask.h): one a
// row, or several packed into one.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/conversation_index.h"
#include "data/conversation_limits.h"
#include "data/file_dataset.h"
#include "data/index_store.h"
#include "data/row_images.h"
#include "data/score_mask.h"

namespace viaduct {

/// How rows are filled with conversations.
struct ConversationRowSettings {
  PackingSettings packing;
  bool answer_only_loss = true;
  bool pad_cu_seqlens = false;
  ConversationLimits limits;  // with `packing.split`, of a part
  uint32_t random_seed = 0;
  int32_t blank_token = 0;  // in places without a conversation
  /// Pictures of the conversations, which are not cut into parts then; null: there are none.
  std::shared_ptr<const RowImages> images = nullptr;
  int64_t image_token = -1;  // of a model that reads images; −1: of none
};

/// What an epoch holds.
struct ConversationUse {
  int64_t conversations = 0, tokens = 0;  // that are not empty
  int64_t rows = 0;
  double padding = 0;  // share of the rows' places
  double scored = 0;   // share of the tokens
};

/// A row has its conversations one after the other, each a document with positions from 0, then
/// padding, which is a document of its own, and the pictures of all of them. Position t of a
/// conversation is scored if its token t + 1 is, by the mask, or with `answer_only_loss` false if
/// it exists and is no picture's.
class ConversationDataset final : public FileDataset {
 public:
  /// ConfigError if conversations of the split are too long for a row: how many, the longest, and
  /// what to do. With a trusted cache (storage.fast_cache_load) this is detected when one is read.
  ConversationDataset(std::shared_ptr<const IndexedDataset> dataset,
                      std::shared_ptr<const IndexedDataset> mask, Split split, DocumentRange range,
                      std::optional<int64_t> num_samples, const ConversationRowSettings& settings,
                      const IndexStorage& storage,
                      std::optional<int64_t> vocabulary_size = std::nullopt);

  using SampleSource::get;
  int64_t size() const override { return stored_.rows(); }
  int64_t sequence_length() const override { return settings_.packing.row_tokens; }
  void get(int64_t index, Sample& sample) const override;

  const IndexedDataset& dataset() const override { return *stored_.request().dataset; }
  DocumentRange documents() const override { return stored_.request().range; }
  std::optional<int64_t> num_samples() const override { return stored_.request().num_samples; }
  std::string description() const override { return stored_.description(); }
  /// Epochs follow one another, so a longer run begins with the same rows.
  bool same_order_for(std::optional<int64_t>) const override { return true; }
  std::optional<int64_t> tokens_per_epoch() const override { return tokens_per_epoch_; }

  const ConversationIndex& index() const { return stored_.get(); }
  /// Whether the mask names a row's first token, which no position of it predicts.
  bool scores_first(int64_t row) const;
  /// Of the first epoch. Reads its part of the order, and a sample of the mask.
  ConversationUse use() const;
  int64_t rows_per_epoch() const override;

 private:
  struct Part {
    int64_t sequence = 0, offset = 0, tokens = 0;
  };
  /// The parts of a row, checked against the file.
  std::vector<Part> parts_of(const ConversationIndex& index, int64_t row) const;
  void append(const Part& part, std::vector<int32_t>& scratch, size_t at, Sample& sample) const;
  int64_t most_documents() const;

  ConversationRowSettings settings_;
  std::optional<int64_t> vocabulary_size_;
  ScoreMask mask_;
  std::optional<int64_t> tokens_per_epoch_;
  StoredConversationIndex stored_;
  mutable std::once_flag counted_;
  mutable int64_t most_documents_ = 0;  // of a row, padding included
};

}  // namespace viaduct
