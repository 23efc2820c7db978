#pragma once
// UTF-8 and the character classes that tokenizers need.

#include <cstddef>
#include <string>
#include <string_view>

namespace viaduct {

/// True if `text` is well-formed UTF-8 (Unicode standard, table 3-7: no surrogates, no overlong
/// forms).
bool is_valid_utf8(std::string_view text);

/// How many maximal ill-formed parts `text` has, and where the first begins.
struct IllFormed {
  size_t count = 0, first = 0;
};
IllFormed ill_formed_utf8(std::string_view text);

/// The longest prefix of the non-empty `text` that is all well-formed, or all ill-formed.
struct Stretch {
  std::string_view text;
  bool well_formed = false;
};
Stretch first_stretch(std::string_view text);

/// `text` with each maximal ill-formed part replaced by one U+FFFD (Unicode standard, section 3.9,
/// "U+FFFD substitution of maximal subparts"). Well-formed text comes back unchanged.
std::string lossy_utf8(std::string_view text);

/// Bytes at the end of `text` that begin a character which more bytes could still complete (0 to
/// 3).
size_t unfinished_utf8_bytes(std::string_view text);

/// A character of well-formed UTF-8 and the bytes it takes.
struct CodePoint {
  char32_t value = 0;
  size_t bytes = 0;
};

/// The character that starts at `text[0]`; `text` is well-formed and not empty.
CodePoint first_code_point(std::string_view text);

/// The last character of `text`, which is well-formed and not empty.
CodePoint last_code_point(std::string_view text);

/// Appends a character (a scalar value: no surrogate, at most U+10FFFF).
void append_utf8(std::string& text, char32_t value);

/// Unicode's White_Space property.
bool is_white_space(char32_t value);

/// Whether a well-formed text has no other characters than these.
bool only_white_space(std::string_view text);

// The next three are as Hugging Face's tokenizers package has them (unicode_tables.h).

/// A word character, for added tokens that are words.
bool is_word_character(char32_t value);

/// A mark that the normalizer StripAccents leaves out.
bool is_accent(char32_t value);

/// Whether `value` is of one grapheme cluster with the character before it. Hangul and pairs of
/// regional indicators do not count.
bool joins_cluster(char32_t before, char32_t value);

}  // namespace viaduct
