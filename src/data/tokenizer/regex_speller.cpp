#include "data/tokenizer/regex_speller.h"

#include <fmt/format.h>

#include <algorithm>

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;

}  // namespace

std::string RegexSpeller::spell(const RegexNode& node) const {
  switch (node.kind) {
    case Kind::set:
      return spell_set(node.set);
    case Kind::sequence:
      return "(?:" + joined(node, "") + ")";
    case Kind::alternatives:
      return "(?:" + joined(node, "|") + ")";
    case Kind::repeat:
      return spell_repeat(node);
    case Kind::atomic:
      return "(?>" + joined(node, "") + ")";
    case Kind::ahead:
      return (node.negated ? "(?!" : "(?=") + joined(node, "") + ")";
    case Kind::behind:
      return spell_behind(node);
    case Kind::text_begin:
      return "\\A";
    case Kind::text_end:
      return "\\z";
    case Kind::search_begin:
      return later_ ? "(?!)" : "\\G";
    case Kind::keep:
      return "\\K";
  }
  return {};
}

std::string RegexSpeller::joined(const RegexNode& node, std::string_view between) const {
  std::string all;
  for (const RegexNode& child : node.children) {
    if (&child != &node.children.front()) all += between;
    all += spell(child);
  }
  return all;
}

/// The alternatives stay at the top, where their lengths may differ.
std::string RegexSpeller::spell_behind(const RegexNode& node) const {
  const RegexNode& inside = node.children.front();
  const bool ways = inside.kind == Kind::alternatives;
  return (node.negated ? "(?<!" : "(?<=") + (ways ? joined(inside, "|") : spell(inside)) + ")";
}

std::string RegexSpeller::spell_repeat(const RegexNode& node) const {
  const RegexNode& child = node.children.front();
  std::string inside = spell(child);
  if (child.kind != Kind::set && child.kind != Kind::sequence && child.kind != Kind::alternatives)
    inside = "(?:" + inside + ")";
  const bool endless = node.most == RegexNode::kUnlimited;
  if (endless && node.least == 0) {
    inside += "*";
  } else if (endless && node.least == 1) {
    inside += "+";
  } else if (node.least == 0 && node.most == 1) {
    inside += "?";
  } else {
    inside += endless ? fmt::format("{{{},}}", node.least)
                      : fmt::format("{{{},{}}}", node.least, node.most);
  }
  if (node.greed == RegexNode::Greed::lazy) inside += "?";
  if (node.greed == RegexNode::Greed::possessive) inside += "+";
  return inside;
}

std::string RegexSpeller::spell_set(const CodePointSet& set) const {
  const auto place =
      std::find_if(sets_.begin(), sets_.end(), [&](const auto* known) { return *known == set; });
  const RegexAlphabet::Kinds& kinds = alphabet_.members(static_cast<size_t>(place - sets_.begin()));
  if (kinds.none()) return "(?:(?!))";
  std::string inside;
  for (size_t first = 0; first < alphabet_.kinds(); ++first) {
    if (!kinds[first]) continue;
    size_t last = first;
    while (last + 1 < alphabet_.kinds() && kinds[last + 1]) ++last;
    inside += fmt::format("\\x{:02x}", first);
    if (last > first) inside += fmt::format("-\\x{:02x}", last);
    first = last;
  }
  return kinds.count() == 1 ? inside : "[" + inside + "]";
}

}  // namespace viaduct
