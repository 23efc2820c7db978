#pragma once
// Texts in UTF-8 as Python sees them: characters, white space, case. Bytes that are no UTF-8 count
// as one character each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::jinja {

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

/// The number of characters.
size_t code_points(std::string_view text);
bool is_ascii(std::string_view text);
/// The character at `at`, which moves behind it.
char32_t next_code_point(std::string_view text, size_t& at);
void append_code_point(std::string& text, char32_t value);
std::u32string to_code_points(std::string_view text);
std::string from_code_points(std::u32string_view text);

/// str.isspace of one character.
bool is_space(char32_t value);
/// Without white space at the begin or end.
std::string_view strip(std::string_view text, bool left, bool right);
/// Without the characters of `set`.
std::string_view strip(std::string_view text, std::string_view set, bool left, bool right);

/// Simple case of a character; lower and upper of texts map some characters to several.
char32_t lower_of(char32_t value);
char32_t upper_of(char32_t value);
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string to_capitalized(std::string_view text);
/// Whether repr() shows a character as it is.
bool is_printable(char32_t value);
bool is_alphabetic(char32_t value);
bool is_decimal_digit(char32_t value);

/// str.splitlines.
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);

}  // namespace viaduct::jinja
