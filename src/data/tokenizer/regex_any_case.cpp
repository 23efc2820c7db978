#include "data/tokenizer/regex_any_case.h"

#include <string>
#include <utility>
#include <vector>

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;

// Without case one character may stand for so many.
constexpr size_t kMostJoined = 3;

}  // namespace

const CaseFolding& RegexAnyCase::folding() {
  if (!folding_) folding_.emplace();
  return *folding_;
}

RegexNode RegexAnyCase::of_text(std::u32string_view text) {
  RegexNode made;
  while (!text.empty()) {
    CodePointSet whole;
    size_t length = kMostJoined + 1;
    while (whole.empty() && --length > 1) {
      if (length <= text.size()) whole = folding().standing_for(text.substr(0, length));
    }
    RegexNode letters;
    for (const char32_t c : text.substr(0, length)) letters.children.push_back(of_character(c));
    if (length > 1)
      letters = RegexNode::of(Kind::alternatives, {RegexNode::of(whole), std::move(letters)});
    made.children.push_back(std::move(letters));
    text.remove_prefix(length);
  }
  return made;
}

RegexNode RegexAnyCase::of_character(char32_t character) {
  const CodePointSet one(character);
  std::vector<RegexNode> ways{RegexNode::of(folding().closure(one))};
  for (const std::u32string& spelled : folding().longer(one)) {
    RegexNode letters;
    for (const char32_t c : spelled)
      letters.children.push_back(RegexNode::of(folding().closure(CodePointSet(c))));
    ways.push_back(std::move(letters));
  }
  return ways.size() == 1 ? std::move(ways.front())
                          : RegexNode::of(Kind::alternatives, std::move(ways));
}

RegexNode RegexAnyCase::of_brackets(Brackets brackets) {
  std::vector<RegexNode> longer;
  if (!brackets.negated) {
    for (const std::u32string& spelled : folding().longer(brackets.set))
      longer.push_back(of_text(spelled));
  }
  const CodePointSet closed = folding().closure(brackets.set);
  RegexNode set = RegexNode::of(brackets.negated ? ~closed : closed);
  if (longer.empty()) return set;
  longer.insert(longer.begin(), std::move(set));
  return RegexNode::of(Kind::alternatives, std::move(longer));
}

}  // namespace viaduct
