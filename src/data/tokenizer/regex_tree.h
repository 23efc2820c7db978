#pragma once
// A regular expression as a tree: what remains of a pattern once its dialect is read. Every
// character is a set, so that engines and their own classes do not matter.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "data/tokenizer/code_point_set.h"

namespace viaduct {

struct RegexNode {
  enum class Kind {
    set,           // one character of `set`
    sequence,      // the children in order; none: the empty text
    alternatives,  // the first child that leads to a match
    repeat,        // the only child, `least` to `most` times
    atomic,        // the only child, without going back into it
    ahead,         // the only child follows, or not (`negated`); takes no text
    behind,        // the only child precedes, or not
    text_begin,
    text_end,
    search_begin,  // where the search for a match begins
    keep,          // the match begins here
  };
  enum class Greed { greedy, lazy, possessive };
  static constexpr int kUnlimited = -1;

  Kind kind = Kind::sequence;
  CodePointSet set;
  std::vector<RegexNode> children;
  bool negated = false;
  int least = 0, most = kUnlimited;
  Greed greed = Greed::greedy;

  /// The number of characters that the node takes, if it is always the same.
  std::optional<size_t> width() const;

  static RegexNode of(CodePointSet set);
  static RegexNode of(Kind kind, std::vector<RegexNode> children, bool negated = false);
};

/// Reads a pattern in Oniguruma's dialect (its RE document, syntax "Oniguruma"), which is that of
/// the patterns of tokenizer.json: `^` and `$` are ends of lines, classes nest and intersect,
/// `{,n}` is a count, `(?m)` lets a dot match line ends. Groups do not capture. ConfigError with
/// the pattern, the construct and its place for what is malformed or cannot be said as a RegexNode:
/// references to groups, calls, conditions, absence operators, \G, \X, \y, look-behinds of varying
/// length.
RegexNode parse_regex(std::string_view pattern);

}  // namespace viaduct
