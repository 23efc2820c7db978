#pragma once
// What Python's methods of texts find in them.

#include <string>
#include <string_view>
#include <vector>

#include "template/runtime.h"

namespace viaduct::jinja {

/// At most `most` cuts (negative: all), the last ones if `from_right`.
std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t most,
                                  bool from_right);
/// At stretches of white space.
std::vector<std::string> split_at_space(std::string_view text, int64_t most, bool from_right);
std::string replaced(Runtime& runtime, std::string_view text, std::string_view old,
                     std::string_view with, int64_t most);
std::string to_title(std::string_view text);
std::string to_swapped_case(std::string_view text);
bool all_space(std::string_view text);
bool all_alphabetic(std::string_view text);
bool all_digits(std::string_view text);
bool all_alphanumeric(std::string_view text);
bool all_printable(std::string_view text);
bool is_identifier(std::string_view text);
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

}  // namespace viaduct::jinja
