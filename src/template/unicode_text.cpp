#include "template/unicode_text.h"

#include <algorithm>

#include "template/unicode_ranges.h"

namespace viaduct::jinja {
namespace {

/// Whether the ranges (begin, end in turn, sorted) hold the character.
bool in_ranges(const uint32_t* ranges, size_t size, char32_t value) {
  const uint32_t* above = std::upper_bound(ranges, ranges + size, static_cast<uint32_t>(value));
  return (above - ranges) % 2 == 1;
}

/// Runs of first, last, step, difference, sorted.
char32_t mapped(const int32_t* runs, size_t size, char32_t value) {
  size_t low = 0, high = size / 4;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (static_cast<char32_t>(runs[4 * middle + 1]) < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == size / 4) return value;
  const int32_t* run = runs + 4 * low;
  const auto character = static_cast<int32_t>(value);
  if (character < run[0] || (character - run[0]) % run[2] != 0) return value;
  return static_cast<char32_t>(character + run[3]);
}

}  // namespace

size_t code_points(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0xc0) return first;
  const size_t more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  char32_t value = first & (0x3fU >> more);
  size_t end = at;
  for (size_t i = 0; i < more; ++i, ++end) {
    if (end >= text.size() || !is_continuation(text[end])) return first;
    value = value << 6 | (static_cast<unsigned char>(text[end]) & 0x3fU);
  }
  at = end;
  return value;
}

void append_code_point(std::string& text, char32_t value) {
  if (value < 0x80) {
    text += static_cast<char>(value);
    return;
  }
  const int more = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
  static constexpr unsigned kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(kFirst[more] | value >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | ((value >> (6 * i)) & 0x3f));
}

std::u32string to_code_points(std::string_view text) {
  std::u32string found;
  found.reserve(text.size());
  for (size_t at = 0; at < text.size();) found += next_code_point(text, at);
  return found;
}

std::string from_code_points(std::u32string_view text) {
  std::string bytes;
  for (const char32_t value : text) append_code_point(bytes, value);
  return bytes;
}

bool is_space(char32_t value) {
  if (value < 0x80)
    return value == ' ' || (value >= 9 && value <= 13) || (value >= 28 && value <= 31);
  return value == 0x85 || value == 0xa0 || value == 0x1680 ||
         (value >= 0x2000 && value <= 0x200a) || value == 0x2028 || value == 0x2029 ||
         value == 0x202f || value == 0x205f || value == 0x3000;
}

namespace {

template <class Belongs>
std::string_view strip_if(std::string_view text, bool left, bool right, Belongs&& belongs) {
  while (left && !text.empty()) {
    size_t end = 0;
    if (!belongs(next_code_point(text, end))) break;
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 && is_continuation(text[begin])) --begin;
    size_t end = begin;
    const char32_t last = next_code_point(text, end);
    if (end != text.size() || !belongs(last)) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace

std::string_view strip(std::string_view text, bool left, bool right) {
  return strip_if(text, left, right, is_space);
}

std::string_view strip(std::string_view text, std::string_view set, bool left, bool right) {
  const std::u32string characters = to_code_points(set);
  return strip_if(text, left, right,
                  [&](char32_t value) { return characters.find(value) != std::u32string::npos; });
}

char32_t lower_of(char32_t value) {
  if (value < 0x80) return value >= 'A' && value <= 'Z' ? value + 32 : value;
  return mapped(kLowerRuns, kLowerRunsSize, value);
}
char32_t upper_of(char32_t value) {
  if (value < 0x80) return value >= 'a' && value <= 'z' ? value - 32 : value;
  return mapped(kUpperRuns, kUpperRunsSize, value);
}

namespace {

/// Adds the upper (or title) case of a character; some are several characters.
void append_upper(std::string& text, char32_t value, bool title) {
  for (size_t i = 0; value >= 0x80 && i < kLongUpperSize; i += 5) {
    if (kLongUpper[i] != value || (kLongUpper[i + 1] != 0) != title) continue;
    for (size_t j = i + 2; j < i + 5 && kLongUpper[j] != 0; ++j) {
      append_code_point(text, kLongUpper[j]);
    }
    return;
  }
  append_code_point(text, upper_of(value));
}

bool is_cased(char32_t value) {
  return lower_of(value) != value || upper_of(value) != value;
}

/// Characters that do not count where a word ends.
bool is_case_ignorable(char32_t value) {
  return value == '\'' || value == 0xad || value == '.' || value == ':';
}

/// Whether no letter follows at `at`.
bool ends_word(std::string_view text, size_t at) {
  while (at < text.size()) {
    const char32_t value = next_code_point(text, at);
    if (!is_case_ignorable(value)) return !is_cased(value);
  }
  return true;
}

}  // namespace

std::string to_lower(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  bool inside = false;  // whether a letter stands before
  for (size_t at = 0; at < text.size();) {
    const char32_t value = next_code_point(text, at);
    if (value == 0x130) {
      lower += "i\xcc\x87";
    } else if (value == 0x3a3) {
      // At the end of a word this letter is another one than inside.
      append_code_point(lower, inside && ends_word(text, at) ? 0x3c2 : 0x3c3);
    } else {
      append_code_point(lower, lower_of(value));
    }
    if (!is_case_ignorable(value)) inside = is_cased(value);
  }
  return lower;
}

std::string to_upper(std::string_view text) {
  std::string upper;
  upper.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(upper, next_code_point(text, at), false);
  return upper;
}

std::string to_capitalized(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  std::string found;
  append_upper(found, next_code_point(text, at), true);
  return found + to_lower(text.substr(at));
}

bool is_printable(char32_t value) {
  if (value < 0x80) return value >= 0x20 && value < 0x7f;
  return !in_ranges(kUnprintable, kUnprintableSize, value);
}
bool is_alphabetic(char32_t value) {
  if (value < 0x80) return (value | 0x20) >= 'a' && (value | 0x20) <= 'z';
  return in_ranges(kAlphabetic, kAlphabeticSize, value);
}
bool is_decimal_digit(char32_t value) {
  if (value < 0x80) return value >= '0' && value <= '9';
  return in_ranges(kDecimal, kDecimalSize, value);
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t value = next_code_point(text, at);
    const bool is_end = (value >= 10 && value <= 13) || (value >= 28 && value <= 30) ||
                        value == 0x85 || value == 0x2028 || value == 0x2029;
    if (!is_end) continue;
    if (value == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace viaduct::jinja
