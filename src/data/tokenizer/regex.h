#pragma once
// Regular expressions as published tokenizers write them: Unicode classes, UTF-8 text, compiled to
// machine code. A `Regex` is immutable and shared by threads; the memory of a match is in a
// `RegexScratch`, one per thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace viaduct {

/// Scratch memory of matching. One per thread.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

/// A compiled pattern.
class Regex {
 public:
  /// Compiles `pattern`. `\s` and `\w` follow Unicode (White_Space; letters, marks, numbers,
  /// connectors), as in the engines that tokenizers are published for. ConfigError with pattern and
  /// position if it is malformed or uses an unsupported feature.
  explicit Regex(std::string_view pattern);

  /// A pattern that matches exactly `literal`.
  static Regex from_literal(std::string_view literal);

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// The leftmost match in `text` that begins at or after `start`. `text` is well-formed UTF-8.
  /// Error if the match exceeds its limit of steps or memory.
  std::optional<Match> find(std::string_view text, size_t start, RegexScratch& scratch) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string pattern_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool jit_ = false;
};

}  // namespace viaduct
