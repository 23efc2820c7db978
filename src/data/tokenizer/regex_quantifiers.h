#pragma once
// What repeats in patterns: "*", "+", "?", "{2,3}", and the greed behind them.

#include <cstddef>
#include <optional>

#include "data/tokenizer/regex_brackets.h"
#include "data/tokenizer/regex_tree.h"

namespace viaduct {

struct RegexQuantifier {
  int least = 0, most = RegexNode::kUnlimited;
  RegexNode::Greed greed = RegexNode::Greed::greedy;
};

/// Whether a quantifier comes next.
bool quantifier_follows(const RegexText& text);
/// Whether "{2}", "{2,}", "{,2}" or "{2,3}" comes next; other braces stand for themselves.
bool count_follows(const RegexText& text);
/// Takes the quantifier that comes next, if one does. `begin`: where begins what it repeats, for
/// messages. ConfigError for counts that contradict each other or are too large.
std::optional<RegexQuantifier> take_quantifier(RegexText& text, size_t begin);

}  // namespace viaduct
