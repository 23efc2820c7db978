#pragma once
// Characters and classes of patterns in any case, as (?i) takes them.

#include <optional>
#include <string_view>

#include "data/tokenizer/regex_brackets.h"
#include "data/tokenizer/regex_tree.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {

class RegexAnyCase {
 public:
  /// `text` in any case. One character may stand for several: as Oniguruma does, for the most that
  /// one can stand for from each place on, and then the next place is behind them.
  RegexNode of_text(std::u32string_view text);
  /// A class in any case; one that is not negated also takes the texts of several characters that
  /// its characters stand for.
  RegexNode of_brackets(Brackets brackets);

 private:
  RegexNode of_character(char32_t character);
  const CaseFolding& folding();

  std::optional<CaseFolding> folding_;  // made when a pattern first needs it
};

}  // namespace viaduct
