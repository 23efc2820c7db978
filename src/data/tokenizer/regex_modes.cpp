#include "data/tokenizer/regex_modes.h"

#include "data/tokenizer/regex_quantifiers.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

/// In extended mode: white space and comments.
bool skip_extended(RegexText& text) {
  const char32_t c = text.peek();
  if (c == ' ' || (c >= '\t' && c <= '\r')) {
    ++text.at;
    return true;
  }
  if (c != '#') return false;
  while (!text.done() && text.peek() != '\n') ++text.at;
  return true;
}

bool skip_comment(RegexText& text) {
  const size_t begin = text.at;
  if (!text.take("(?#")) return false;
  for (; !text.done() && text.peek() != ')'; ++text.at)
    if (text.peek() == '\\') ++text.at;
  if (!text.take(")")) text.refuse(begin, "has no closing parenthesis");
  return true;
}

}  // namespace

bool read_modes(RegexText& text, RegexModes& modes) {
  const size_t begin = text.at;
  bool on = true;
  for (;; ++text.at) {
    switch (text.peek()) {
      case '-':
        on = false;
        break;
      case 'i':
        modes.any_case = on;
        break;
      case 'm':
        modes.dot_takes_lines = on;
        break;
      case 'x':
        modes.extended = on;
        break;
      case ':':
      case ')':
        if (text.at > begin) return true;
        [[fallthrough]];
      default:
        text.at = begin;
        return false;
    }
  }
}

void take_group_name(RegexText& text, size_t begin) {
  const char32_t close = text.characters[text.at - 1] == '<' ? '>' : '\'';
  const char32_t first = text.peek();
  const size_t name = text.at;
  while (!text.done() && text.peek() != close && text.peek() != ')') ++text.at;
  if (text.done() || text.peek() != close || text.at == name)
    text.refuse(begin, "is a group without a name");
  ++text.at;
  if ((first >= '0' && first <= '9') || !property_set("word")->contains(first))
    text.refuse(begin, "is a group whose name begins with no letter");
}

bool skip_ignored(RegexText& text, const RegexModes& modes) {
  const size_t begin = text.at;
  while (!text.done() && ((modes.extended && skip_extended(text)) || skip_comment(text))) {
  }
  return text.at > begin;
}

bool is_repeated(RegexText& text, const RegexModes& modes) {
  const size_t here = text.at;
  skip_ignored(text, modes);
  const bool repeated = quantifier_follows(text);
  text.at = here;
  return repeated;
}

}  // namespace viaduct
