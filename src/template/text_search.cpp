#include "template/text_search.h"

#include <algorithm>

#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

template <class Belongs>
bool all_of(std::string_view text, Belongs&& belongs) {
  for (size_t at = 0; at < text.size();) {
    if (!belongs(next_code_point(text, at))) return false;
  }
  return !text.empty();
}

bool has_lower(char32_t value) {
  return upper_of(value) != value;
}
bool has_upper(char32_t value) {
  return lower_of(value) != value;
}

}  // namespace

std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t most,
                                  bool from_right) {
  std::vector<std::string> parts;
  if (!from_right) {
    for (size_t at = text.find(separator); at != std::string_view::npos && most != 0;
         at = text.find(separator), --most) {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
    parts.emplace_back(text);
    return parts;
  }
  for (size_t at = text.rfind(separator); at != std::string_view::npos && most != 0;
       at = text.rfind(separator), --most) {
    parts.emplace_back(text.substr(at + separator.size()));
    text.remove_suffix(text.size() - at);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_at_space(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string> parts;
  text = strip(text, !from_right, from_right);
  while (!text.empty()) {
    if (most-- == 0) {
      parts.emplace_back(text);
      break;
    }
    size_t begin = 0, end = text.size();
    if (from_right) {
      for (size_t at = text.size(); at > 0 && begin == 0;) {
        const size_t behind = at--;
        while (at > 0 && is_continuation(text[at])) --at;
        size_t end_of = at;
        if (is_space(next_code_point(text, end_of))) begin = behind;
      }
    } else {
      for (size_t at = 0; at < text.size();) {
        const size_t before = at;
        if (!is_space(next_code_point(text, at))) continue;
        end = before;
        break;
      }
    }
    parts.emplace_back(text.substr(begin, end - begin));
    text = from_right ? strip(text.substr(0, begin), false, true)
                      : strip(text.substr(end), true, false);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::string replaced(Runtime& runtime, std::string_view text, std::string_view old,
                     std::string_view with, int64_t most) {
  runtime.budget.search(text.size(), old.size());
  std::string result;
  const auto add = [&](std::string_view part) {
    runtime.budget.check_text(result.size() + part.size());
    result += part;
  };
  if (old.empty()) {
    for (size_t at = 0; most != 0; --most) {
      add(with);
      if (at >= text.size()) {
        text = {};
        break;
      }
      const size_t begin = at;
      next_code_point(text, at);
      add(text.substr(begin, at - begin));
      if (most == 1) {
        text.remove_prefix(at);
        at = 0;
      }
    }
  } else {
    for (size_t at = text.find(old); at != std::string_view::npos && most != 0;
         at = text.find(old), --most) {
      add(text.substr(0, at));
      add(with);
      text.remove_prefix(at + old.size());
    }
  }
  add(text);
  runtime.budget.make_text(result.size());
  return result;
}

std::string to_title(std::string_view text) {
  std::string result;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t value = next_code_point(text, at);
    const std::string_view character = text.substr(begin, at - begin);
    result += inside ? to_lower(character) : to_capitalized(character);
    inside = has_lower(value) || has_upper(value);
  }
  return result;
}

std::string to_swapped_case(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t value = next_code_point(text, at);
    const std::string_view character = text.substr(begin, at - begin);
    result += has_upper(value) ? to_lower(character) : to_upper(character);
  }
  return result;
}

bool all_space(std::string_view text) {
  return all_of(text, is_space);
}
bool all_alphabetic(std::string_view text) {
  return all_of(text, is_alphabetic);
}
bool all_digits(std::string_view text) {
  return all_of(text, is_decimal_digit);
}
bool all_alphanumeric(std::string_view text) {
  return all_of(text,
                [](char32_t value) { return is_alphabetic(value) || is_decimal_digit(value); });
}
bool all_printable(std::string_view text) {
  return text.empty() || all_of(text, is_printable);
}
bool is_identifier(std::string_view text) {
  if (text.empty() || is_decimal_digit(static_cast<unsigned char>(text[0]))) return false;
  return all_of(text, [](char32_t value) {
    return is_alphabetic(value) || is_decimal_digit(value) || value == '_';
  });
}

bool is_lower(std::string_view text) {
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t value = next_code_point(text, at);
    if (has_upper(value)) return false;
    cased = cased || has_lower(value);
  }
  return cased;
}
bool is_upper(std::string_view text) {
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t value = next_code_point(text, at);
    if (has_lower(value)) return false;
    cased = cased || has_upper(value);
  }
  return cased;
}
bool is_title(std::string_view text) {
  bool cased = false, inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t value = next_code_point(text, at);
    if ((has_upper(value) && inside) || (has_lower(value) && !inside)) return false;
    inside = has_upper(value) || has_lower(value);
    cased = cased || inside;
  }
  return cased;
}

}  // namespace viaduct::jinja
