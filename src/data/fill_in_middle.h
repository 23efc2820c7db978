#pragma once
// Rearranges parts of documents, so that a model learns to fill in a middle from the text before
// and after it (Bavarian et al., "Efficient training of language models to fill in the middle",
// 2022), as Megatron's GPTFIMDataset does.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset_config.h"

namespace viaduct {

class RowDraws;
class Tokenizer;

/// A segment (the tokens between end-of-document tokens) becomes, with the probability `fim_rate`,
///
///   PREFIX prefix SUFFIX suffix MIDDLE middle            (PSM), or with probability fim_spm_rate
///   PREFIX SUFFIX suffix MIDDLE prefix middle            (SPM),
///
/// where its text is cut at two places drawn evenly among its characters, and each part is
/// tokenized by itself. The row keeps its length: excess tokens at its end are cut off, missing
/// ones are padded.
///
/// Unlike Megatron, which draws in the order in which a process reads its rows, the result here
/// depends only on the seed and the row's number: it is the same in every layout and after a
/// resumption.
class FillInMiddle {
 public:
  /// ConfigError with all tokens of `config` that the tokenizer lacks. `stream` distinguishes
  /// splits. The tokenizer must outlive this object.
  FillInMiddle(const DatasetConfig& config, const Tokenizer& tokenizer, std::string_view stream);

  /// The padding token, which is not scored.
  int32_t pad() const { return pad_; }
  /// Safe to call from several threads at once.
  void apply(int64_t row_number, std::span<int32_t> row) const;

 private:
  using Ids = std::vector<int32_t>;

  Ids segment(std::span<const int32_t> ids, RowDraws& draws) const;
  Ids fragment(std::span<const int32_t> ids, double rate, RowDraws& draws) const;

  const Tokenizer& tokenizer_;
  double rate_, spm_rate_, fragment_rate_;
  int32_t prefix_ = 0, middle_ = 0, suffix_ = 0, pad_ = 0, eod_ = 0;
  std::optional<int32_t> split_;
  std::optional<std::string> no_prefix_;
  uint64_t key_;
};

}  // namespace viaduct
