#pragma once
// Rows in which parts of documents are turned around, so that a model learns to fill in a middle
// from what is before and behind it (Bavarian et al., "Efficient training of language models to
// fill in the middle", 2022), as Megatron's GPTFIMDataset does it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset_config.h"

namespace viaduct {

class Tokenizer;

/// A segment (what is between end-of-document tokens) becomes, with the probability `fim_rate`,
///
///   PREFIX prefix SUFFIX suffix MIDDLE middle            (PSM), or with probability fim_spm_rate
///   PREFIX SUFFIX suffix MIDDLE prefix middle            (SPM),
///
/// where its text is cut at two places drawn evenly among its characters, and each part is
/// tokenized by itself. The row keeps its length: what is too much at its end is cut off, what is
/// missing is padded.
///
/// Unlike Megatron, which draws in the order in which a process happens to read its rows, what is
/// done to a row depends on the seed and the row's number alone: it is the same in every layout and
/// after a resumption.
class FillInMiddle {
 public:
  /// ConfigError with all tokens of `config` that the tokenizer does not have. `stream` tells
  /// splits apart. The tokenizer must live as long.
  FillInMiddle(const DatasetConfig& config, const Tokenizer& tokenizer, std::string_view stream);

  /// What fills up rows; it is not scored.
  int32_t pad() const { return pad_; }
  /// Safe to call from several threads at once.
  void apply(int64_t row_number, std::span<int32_t> row) const;

 private:
  class Draws;
  using Ids = std::vector<int32_t>;

  Ids segment(std::span<const int32_t> ids, Draws& draws) const;
  Ids fragment(std::span<const int32_t> ids, double rate, Draws& draws) const;

  const Tokenizer& tokenizer_;
  double rate_, spm_rate_, fragment_rate_;
  int32_t prefix_ = 0, middle_ = 0, suffix_ = 0, pad_ = 0, eod_ = 0;
  std::optional<int32_t> split_;
  std::optional<std::string> no_prefix_;
  uint64_t key_;
};

}  // namespace viaduct
