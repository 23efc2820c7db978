#include "data/tokenizer/regex_brackets.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

constexpr int kMaxDepth = 64;

int digit_of(char32_t c, int base) {
  int value = -1;
  if (c >= '0' && c <= '9') value = static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') value = static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') value = static_cast<int>(c - 'A') + 10;
  return value < base ? value : -1;
}

/// Up to `most` digits.
std::optional<char32_t> take_number(RegexText& text, int base, int least, int most) {
  char32_t value = 0;
  int count = 0;
  while (count < most && text.has() && digit_of(text.peek(), base) >= 0) {
    value = std::min<char32_t>(value * base + digit_of(text.peek(), base), CodePointSet::kEnd);
    ++text.at;
    ++count;
  }
  return count >= least ? std::optional(value) : std::nullopt;
}

/// The set of a property. Word characters in brackets lack superscripts and fractions of Latin-1.
std::optional<CodePointSet> named_set(std::string_view name, bool in_brackets) {
  auto set = property_set(name);
  if (in_brackets && set && set == property_set("word")) return posix_set("word");
  return set;
}

CodePointSet take_property(RegexText& text, size_t begin, bool negated, bool in_brackets) {
  if (!text.take("{")) text.refuse(begin, "needs a name in braces");
  if (text.take("^")) negated = !negated;
  std::string name;
  while (text.has() && text.peek() != '}') append_utf8(name, text.characters[text.at++]);
  if (!text.take("}")) text.refuse(begin, "has no closing brace");
  const auto set = named_set(name, in_brackets);
  if (!set) text.refuse(begin, "names a class of characters that is not known");
  return negated ? ~*set : *set;
}

/// After "[": "[:name:]".
std::optional<CodePointSet> take_posix(RegexText& text, size_t begin) {
  if (text.peek() != ':') return std::nullopt;
  size_t end = text.at + 1;
  std::string name;
  const bool negated = text.peek(1) == '^';
  if (negated) ++end;
  while (end < text.characters.size() && text.characters[end] >= 'a' && text.characters[end] <= 'z')
    name.push_back(static_cast<char>(text.characters[end++]));
  if (end + 1 >= text.characters.size() || text.characters[end] != ':' ||
      text.characters[end + 1] != ']') {
    return std::nullopt;
  }
  const auto set = posix_set(name);
  text.at = end + 2;
  if (!set) text.refuse(begin, "is no POSIX class");
  return negated ? ~*set : *set;
}

Brackets brackets(RegexText& text, size_t begin, int depth);

/// One item of a class: a set, or a character that a range may begin with.
struct Item {
  std::optional<CodePointSet> set;
  char32_t character = 0;
};

Item take_item(RegexText& text, size_t begin, int depth) {
  const size_t here = text.at;
  if (text.take("[")) {
    if (auto set = take_posix(text, here)) return {std::move(set), 0};
    const Brackets inner = brackets(text, here, depth + 1);
    return {inner.negated ? ~inner.set : inner.set, 0};
  }
  if (text.take("\\")) {
    if (text.done()) text.refuse(begin, "has no end");
    if (auto set = take_set_escape(text, here, true)) return {std::move(set), 0};
    if (text.take("b")) return {std::nullopt, '\b'};
    return {std::nullopt, take_character_escape(text, here)};
  }
  return {std::nullopt, text.characters[text.at++]};
}

Brackets brackets(RegexText& text, size_t begin, int depth) {
  if (depth > kMaxDepth) text.refuse(begin, "nests too deeply");
  Brackets made;
  made.negated = text.take("^");
  std::optional<CodePointSet> before;  // what "&&" intersects with
  std::vector<std::pair<char32_t, char32_t>> ranges;
  CodePointSet sets;
  bool first = true;
  for (;; first = false) {
    if (text.done()) text.refuse(begin, "has no closing bracket");
    if (text.peek() == ']') {
      // A bracket that comes first is itself, if the class goes on.
      const bool itself = first && text.characters.find(U']', text.at + 1) != std::u32string::npos;
      if (!itself) {
        if (first) text.refuse(begin, "is an empty class");
        break;
      }
    }
    if (text.take("&&")) {
      const CodePointSet now = sets | CodePointSet::from_ranges(std::move(ranges));
      before = before ? *before & now : now;
      sets = {};
      ranges.clear();
      continue;
    }
    const size_t here = text.at;
    Item item = take_item(text, begin, depth);
    const bool range = text.peek() == '-' && text.has(1) && text.peek(1) != ']' &&
                       !(text.peek(1) == '&' && text.peek(2) == '&');
    if (item.set) {
      if (range && text.peek(1) != '[') text.refuse(here, "begins a range with a class");
      sets |= *item.set;
      continue;
    }
    if (!range || item.character == CodePointSet::kEnd) {
      ranges.emplace_back(item.character, item.character);
      continue;
    }
    if (text.peek(1) == '[') text.refuse(here, "ends a range with a class");
    ++text.at;
    const Item last = take_item(text, begin, depth);
    if (last.set) text.refuse(here, "ends a range with a class");
    if (last.character < item.character) text.refuse(here, "is an empty range");
    ranges.emplace_back(item.character, last.character);
    // "a-c-e": the second dash is itself.
    if (text.peek() == '-' && text.has(1) && text.peek(1) != ']') {
      ranges.emplace_back('-', '-');
      ++text.at;
    }
  }
  ++text.at;
  made.set = sets | CodePointSet::from_ranges(std::move(ranges));
  if (before) made.set = made.set & *before;
  return made;
}

}  // namespace

RegexText::RegexText(std::string_view given) : pattern(given) {
  VIADUCT_CHECK(ConfigError, is_valid_utf8(given), "regular expression {}: not UTF-8",
                lossy_utf8(given));
  for (std::string_view rest = given; !rest.empty();) {
    const CodePoint next = first_code_point(rest);
    characters.push_back(next.value);
    rest.remove_prefix(next.bytes);
  }
}

bool RegexText::take(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (peek(i) != static_cast<unsigned char>(text[i]) || !has(i)) return false;
  }
  at += text.size();
  return true;
}

void RegexText::refuse(size_t begin, std::string_view problem) const {
  constexpr size_t kShown = 24;
  std::string construct;
  const size_t end = std::min({std::max(at, begin + 1), characters.size(), begin + kShown});
  for (size_t i = begin; i < end; ++i) append_utf8(construct, characters[i]);
  fail<ConfigError>("regular expression {}: \"{}\" at character {} {}", pattern, construct,
                    begin + 1, problem);
}

std::optional<CodePointSet> take_set_escape(RegexText& text, size_t begin, bool in_brackets) {
  const char32_t letter = text.characters[text.at++];
  const auto known = [&](std::string_view name) { return *named_set(name, in_brackets); };
  switch (letter) {
    case 'd':
      return known("digit");
    case 'D':
      return ~known("digit");
    case 'w':
      return known("word");
    case 'W':
      return ~known("word");
    case 's':
      return known("space");
    case 'S':
      return ~known("space");
    case 'h':
      return known("xdigit");
    case 'H':
      return ~known("xdigit");
    case 'p':
      if (text.peek() == '{') return take_property(text, begin, false, in_brackets);
      break;
    case 'P':
      if (text.peek() == '{') return take_property(text, begin, true, in_brackets);
      break;
    default:
      break;
  }
  --text.at;
  return std::nullopt;
}

char32_t take_character_escape(RegexText& text, size_t begin) {
  const char32_t letter = text.characters[text.at++];
  const auto checked = [&](std::optional<char32_t> value) {
    if (!value) text.refuse(begin, "needs hexadecimal digits");
    if (*value >= CodePointSet::kEnd || (*value >= 0xD800 && *value < 0xE000))
      text.refuse(begin, "is no character");
    return *value;
  };
  switch (letter) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case 'x':
      if (text.take("{")) {
        const auto value = take_number(text, 16, 1, 8);
        if (value && text.peek() == ' ')
          text.refuse(begin, "lists characters, which is not supported; expected one");
        if (!text.take("}")) text.refuse(begin, "has no closing brace");
        return checked(value);
      } else {
        const char32_t value = checked(take_number(text, 16, 1, 2));
        if (value >= 0x80) text.refuse(begin, "is a byte, not a character");
        return value;
      }
    case 'u':
      return checked(take_number(text, 16, 4, 4));
    case '0':
      return take_number(text, 8, 0, 2).value_or(0);
    default:
      break;
  }
  const bool word =
      letter < 0x80 && (digit_of(letter, 10) >= 0 || (letter >= 'a' && letter <= 'z') ||
                        (letter >= 'A' && letter <= 'Z'));
  if (word) text.refuse(begin, "is an escape that is not supported");
  return letter;
}

Brackets take_brackets(RegexText& text, size_t begin) {
  return brackets(text, begin, 0);
}

}  // namespace viaduct
