#include "data/tokenizer/regex_quantifiers.h"

#include <algorithm>

namespace viaduct {
namespace {

constexpr int kMaxCount = 100000;  // Oniguruma's own limit

bool take_count(RegexText& text, int& least, int& most) {
  if (!text.take("{")) return false;
  const auto number = [&](int& value) {
    bool any = false;
    value = 0;
    for (; text.peek() >= '0' && text.peek() <= '9'; ++text.at, any = true)
      value = std::min(value * 10 + static_cast<int>(text.peek() - '0'), kMaxCount + 1);
    return any;
  };
  const bool has_least = number(least);
  bool has_most = has_least;
  most = least;
  if (text.take(",")) {
    has_most = number(most);
    if (!has_most) most = RegexNode::kUnlimited;
  }
  return (has_least || has_most) && text.take("}");
}

}  // namespace

bool count_follows(const RegexText& text) {
  RegexText ahead = text;
  int least = 0, most = 0;
  return take_count(ahead, least, most);
}

bool quantifier_follows(const RegexText& text) {
  const char32_t c = text.peek();
  return text.has() && (c == '*' || c == '+' || c == '?' || (c == '{' && count_follows(text)));
}

std::optional<RegexQuantifier> take_quantifier(RegexText& text, size_t begin) {
  RegexQuantifier taken;
  bool count = false;
  if (text.take("*")) {
  } else if (text.take("+")) {
    taken.least = 1;
  } else if (text.take("?")) {
    taken.most = 1;
  } else if (text.peek() == '{' && count_follows(text)) {
    take_count(text, taken.least, taken.most);
    count = true;
  } else {
    return std::nullopt;
  }
  if (taken.most != RegexNode::kUnlimited && taken.most < taken.least)
    text.refuse(begin, "repeats at most fewer times than at least");
  if (std::max(taken.least, taken.most) > kMaxCount) text.refuse(begin, "repeats too often");
  // "{2}?" is a text that may be missing, "{2}+" one repeated.
  if (count && taken.least == taken.most) return taken;
  if (text.take("?")) {
    taken.greed = RegexNode::Greed::lazy;
  } else if (!count && text.take("+")) {
    taken.greed = RegexNode::Greed::possessive;
  }
  return taken;
}

}  // namespace viaduct
