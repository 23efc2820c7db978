#pragma once
// Texts as packed micro-batches of one size, each text a document.

#include <cstdint>
#include <vector>

#include "engine/host_batch.h"

namespace viaduct {

struct TextToScore;
struct TokenTarget;

struct TextBatchSettings {
  int64_t tokens = 0;   // of a micro-batch, the same in all
  int64_t longest = 0;  // tokens of a document
  int cp = 1;           // context ranks, over which documents are cut with padding
};

class TextBatches {
 public:
  /// Distributes the texts in their order; `texts` outlive it. ShapeError for an empty text and one
  /// that is longer than a document or a micro-batch may be.
  TextBatches(const std::vector<TextToScore>& texts, const TextBatchSettings& settings);

  int64_t count() const { return static_cast<int64_t>(first_.size()); }
  /// Micro-batch `i`; one beyond the last has no text. What the texts leave is filled with tokens
  /// that are not scored.
  HostBatch batch(int64_t i) const;
  /// What is scored in it: positions are those of the micro-batch.
  std::vector<TokenTarget> targets(int64_t i) const;

 private:
  /// The texts of a micro-batch, an index range.
  struct Texts {
    size_t begin = 0, end = 0;
  };
  Texts texts_of(int64_t i) const;

  const std::vector<TextToScore>& texts_;
  TextBatchSettings settings_;
  std::vector<size_t> first_;  // text of each micro-batch
};

}  // namespace viaduct
