#include "data/tokenizer/regex_shorthands.h"

#include <utility>

#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;

RegexNode newline() {
  return RegexNode::of(CodePointSet('\n'));
}

RegexNode text_end() {
  return RegexNode::of(Kind::text_end, {});
}

/// \R: a line end of any kind; "\r\n" is one.
RegexNode line_break() {
  RegexNode pair = RegexNode::of(Kind::sequence, {RegexNode::of(CodePointSet('\r')), newline()});
  const CodePointSet single =
      CodePointSet::range('\n', '\r') | CodePointSet(0x85) | CodePointSet::range(0x2028, 0x2029);
  return RegexNode::of(
      Kind::atomic, {RegexNode::of(Kind::alternatives, {std::move(pair), RegexNode::of(single)})});
}

/// \Z: the end of the text, or the line end before it.
RegexNode last_end() {
  RegexNode last_line = RegexNode::of(Kind::sequence, {newline(), text_end()});
  return RegexNode::of(Kind::ahead,
                       {RegexNode::of(Kind::alternatives, {text_end(), std::move(last_line)})});
}

/// Where a word character is on exactly one side, or not.
RegexNode word_border(bool negated) {
  const auto side = [](Kind kind, bool absent) {
    return RegexNode::of(kind, {RegexNode::of(*property_set("word"))}, absent);
  };
  return RegexNode::of(
      Kind::alternatives,
      {RegexNode::of(Kind::sequence, {side(Kind::behind, false), side(Kind::ahead, !negated)}),
       RegexNode::of(Kind::sequence, {side(Kind::behind, true), side(Kind::ahead, negated)})});
}

}  // namespace

RegexNode line_begin() {
  return RegexNode::of(
      Kind::alternatives,
      {RegexNode::of(Kind::text_begin, {}),
       RegexNode::of(Kind::sequence, {RegexNode::of(Kind::behind, {newline()}),
                                      RegexNode::of(Kind::ahead, {text_end()}, true)})});
}

RegexNode line_end() {
  return RegexNode::of(Kind::alternatives, {text_end(), RegexNode::of(Kind::ahead, {newline()})});
}

RegexNode any_character(bool takes_lines) {
  return RegexNode::of(takes_lines ? CodePointSet::all() : ~CodePointSet('\n'));
}

std::optional<RegexNode> shorthand_of(char32_t letter) {
  switch (letter) {
    case 'N':
      return any_character(false);
    case 'O':
      return any_character(true);
    case 'R':
      return line_break();
    case 'A':
      return RegexNode::of(Kind::text_begin, {});
    case 'z':
      return text_end();
    case 'Z':
      return last_end();
    case 'b':
    case 'B':
      return word_border(letter == 'B');
    case 'K':
      return RegexNode::of(Kind::keep, {});
    default:
      return std::nullopt;
  }
}

}  // namespace viaduct
