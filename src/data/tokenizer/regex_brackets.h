#pragma once
// Classes in brackets, and the escapes that name characters and sets.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer/code_point_set.h"

namespace viaduct {

/// The characters of a pattern, and a place among them.
struct RegexText {
  std::string_view pattern;  // for messages
  std::u32string characters;
  size_t at = 0;

  /// ConfigError if `pattern` is not UTF-8.
  explicit RegexText(std::string_view pattern);

  bool done() const { return at >= characters.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at + ahead < characters.size() ? characters[at + ahead] : 0;
  }
  bool has(size_t ahead = 0) const { return at + ahead < characters.size(); }
  /// Takes `text` if it comes next.
  bool take(std::string_view text);
  /// ConfigError: what is wrong with the construct that begins at `begin`.
  [[noreturn]] void refuse(size_t begin, std::string_view problem) const;
};

/// After a backslash: a set (\w, \p{L}), or nothing, with `text` where it was.
std::optional<CodePointSet> take_set_escape(RegexText& text, size_t begin, bool in_brackets);
/// After a backslash: the character that an escape stands for (\n, \x41, \.). Refuses letters that
/// are no such escape.
char32_t take_character_escape(RegexText& text, size_t begin);
/// After "[": the class up to its "]", and whether it is negated as a whole.
struct Brackets {
  CodePointSet set;
  bool negated = false;
};
Brackets take_brackets(RegexText& text, size_t begin);

}  // namespace viaduct
