#pragma once
// Patterns rewritten so that an engine that goes back finds the same matches in fewer steps, and
// counts the steps that it takes.

#include "data/tokenizer/regex_tree.h"

namespace viaduct {

struct BoundedRegex {
  RegexNode tree;
  bool asks_for_begin = false;  // has Kind::search_begin
  /// Whether steps forward could repeat unseen: the engine must count them, so it must not turn
  /// repeats into possessive ones by itself.
  bool count_all = false;
};

/// A tree with the matches of `tree`. A repeat of one set at the begin of a way to match is tried
/// once for each run of that set, not from each character of the run: if the way fails from one
/// character, it fails from the next, from where it reaches fewer places.
BoundedRegex bounded(RegexNode tree);

}  // namespace viaduct
