#include "template/literals.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "template/template_error.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Digits, with single underscores between them.
std::string read_digits(const std::string& text, size_t& at) {
  std::string found;
  while (at < text.size()) {
    if (is_digit(text[at])) {
      found += text[at++];
    } else if (text[at] == '_' && !found.empty() && at + 1 < text.size() &&
               is_digit(text[at + 1])) {
      ++at;
    } else {
      break;
    }
  }
  return found;
}

TemplateValue integer_of(const std::string& digits, int base) {
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value, base);
  if (problem == std::errc::result_out_of_range) {
    template_fault("the integer {} has more than 64 bits", digits);
  }
  if (problem != std::errc() || stop != end) template_fault("not a number");
  return value;
}

TemplateValue read_based_number(const std::string& text, size_t& at, int base) {
  std::string digits;
  for (at += 2; at < text.size(); ++at) {
    const char c = static_cast<char>(text[at] | 0x20);
    if (text[at] == '_') continue;
    if (!is_digit(text[at]) && (c < 'a' || c > 'z')) break;
    digits += text[at];
  }
  return integer_of(digits, base);
}

/// An escape as in Python's texts, from its backslash to its last character.
void read_escape(const std::string& source, size_t& at, std::string& text) {
  const char c = source[++at];
  static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
  if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
    text += kTo[known];
  } else if (c == '\n') {
    // A line that goes on.
  } else if (c == 'x' || c == 'u' || c == 'U') {
    const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    uint32_t value = 0;
    const char* from = source.data() + at + 1;
    const char* to = source.data() + std::min(source.size(), at + 1 + count);
    const auto [stop, problem] = std::from_chars(from, to, value, 16);
    if (problem != std::errc() || stop != from + count || value > 0x10ffff ||
        (value >= 0xd800 && value < 0xe000)) {
      template_fault("a text with a broken escape");
    }
    append_code_point(text, value);
    at += count;
  } else if (c >= '0' && c <= '7') {
    uint32_t value = 0;
    size_t count = 0;
    while (count < 3 && at + count < source.size() && source[at + count] >= '0' &&
           source[at + count] <= '7') {
      value = value * 8 + static_cast<uint32_t>(source[at + count] - '0');
      ++count;
    }
    append_code_point(text, value);
    at += count - 1;
  } else if (c == 'N') {
    template_fault("a text with \\N: names of characters are not known");
  } else {
    text += '\\';
    text += c;
  }
}

}  // namespace

TemplateValue read_number(const std::string& text, size_t& at) {
  const size_t begin = at;
  if (text[at] == '0' && at + 1 < text.size()) {
    const char form = static_cast<char>(text[at + 1] | 0x20);
    const int base = form == 'x' ? 16 : form == 'o' ? 8 : form == 'b' ? 2 : 0;
    if (base != 0) return read_based_number(text, at, base);
  }
  std::string number = read_digits(text, at);
  bool is_float = false;
  // Behind a dot stands the index of an item: `pairs.0.1`.
  const bool after_dot = begin > 0 && text[begin - 1] == '.';
  if (!after_dot && at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    is_float = true;
    ++at;
    number += '.' + read_digits(text, at);
  }
  if (!after_dot && at < text.size() && (text[at] | 0x20) == 'e') {
    size_t power = at + 1;
    if (power < text.size() && (text[power] == '+' || text[power] == '-')) ++power;
    if (power < text.size() && is_digit(text[power])) {
      is_float = true;
      number += text.substr(at, power - at);
      at = power;
      number += read_digits(text, at);
    }
  }
  return is_float ? TemplateValue(std::strtod(number.c_str(), nullptr)) : integer_of(number, 10);
}

std::string read_quoted_text(const std::string& source, size_t& at) {
  const char quote = source[at];
  std::string text;
  for (++at; at < source.size() && source[at] != quote; ++at) {
    if (source[at] != '\\' || at + 1 >= source.size()) {
      text += source[at];
    } else {
      read_escape(source, at, text);
    }
  }
  if (at >= source.size()) template_fault("a text without its end, {}", quote);
  ++at;
  return text;
}

}  // namespace viaduct::jinja
