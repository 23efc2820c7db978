#pragma once
// Regular expressions as published tokenizers write them (regex_tree.h), over UTF-8 text, compiled
// to machine code. A `Regex` is immutable and shared by threads; the memory of a match is in a
// `RegexScratch`, one per thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "data/tokenizer/regex_alphabet.h"
#include "data/tokenizer/regex_tree.h"

struct pcre2_real_code_8;

namespace viaduct {

/// Scratch memory of matching, allocated when it is needed. One per thread.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  State& state();
  std::unique_ptr<State> state_;
};

/// A compiled pattern.
class Regex {
 public:
  /// Compiles `pattern`. ConfigError with the pattern, the construct and its place if it is
  /// malformed or uses an unsupported feature.
  explicit Regex(std::string_view pattern);
  /// A pattern that is a tree already.
  explicit Regex(const RegexNode& tree);
  /// One character of `set`.
  explicit Regex(const CodePointSet& set) : Regex(RegexNode::of(set)) {}

  /// A pattern that matches exactly `literal`.
  static Regex from_literal(std::string_view literal);

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// Calls `visit` for the matches in `text` (well-formed UTF-8), from left to right; each search
  /// begins where the last match ended, and an empty match there does not count. An empty text has
  /// none, as in Hugging Face's tokenizers. `visit` may use the
  /// same scratch memory. Time and memory are linear in the text; Error if the pattern goes back
  /// more often than the limit for a text of this length, or needs too much memory.
  void for_each_match(std::string_view text, RegexScratch& scratch,
                      FunctionRef<void(Match)> visit) const;
  /// The leftmost match in `text` that begins at or after `start`.
  std::optional<Match> find(std::string_view text, size_t start, RegexScratch& scratch) const;

 private:
  Regex(std::string_view pattern, const RegexNode& tree);
  struct Search;

  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string pattern_;
  RegexAlphabet alphabet_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  // For places behind the begin of a search; null: the same.
  std::unique_ptr<pcre2_real_code_8, Free> later_code_;
  bool jit_ = false;
};

}  // namespace viaduct
