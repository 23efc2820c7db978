#pragma once
// The heads of groups in patterns: modes ("(?i-m)") and names, and what modes and comments make of
// no account.

#include <cstddef>

#include "data/tokenizer/regex_brackets.h"

namespace viaduct {

/// What holds at a place of a pattern.
struct RegexModes {
  bool any_case = false, dot_takes_lines = false, extended = false;
  bool in_behind = false, in_absent_behind = false;  // (?<=…), (?<!…); both in nested ones

  bool is_in_behind() const { return in_behind || in_absent_behind; }
};

/// Takes letters of modes up to ":" or ")"; false, at the place before them, if there are others.
bool read_modes(RegexText& text, RegexModes& modes);
/// After "<" or "'": takes the name of a group and what closes it. ConfigError for what Oniguruma
/// takes for no name.
void take_group_name(RegexText& text, size_t begin);
/// Skips comments and, in extended mode, white space. False if there are none.
bool skip_ignored(RegexText& text, const RegexModes& modes);
/// Whether a quantifier follows, be it behind what is skipped. `text` stays where it is.
bool is_repeated(RegexText& text, const RegexModes& modes);

}  // namespace viaduct
