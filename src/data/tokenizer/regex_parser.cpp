// Oniguruma's dialect to a tree.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/regex_any_case.h"
#include "data/tokenizer/regex_brackets.h"
#include "data/tokenizer/regex_modes.h"
#include "data/tokenizer/regex_quantifiers.h"
#include "data/tokenizer/regex_shorthands.h"
#include "data/tokenizer/regex_tree.h"

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;

constexpr int kMaxNesting = 200;

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  RegexNode parse() {
    RegexNode whole = alternatives({}, 0);
    if (!text_.done()) text_.refuse(text_.at, "closes no group");
    // Without named groups the others capture.
    if (plain_in_absent_behind_ && !has_named_) {
      text_.at = *plain_in_absent_behind_ + 1;
      refuse_in_behind(*plain_in_absent_behind_, "captures inside a negative look-behind");
    }
    return whole;
  }

 private:
  /// Up to the end or a ")", which stays.
  RegexNode alternatives(RegexModes modes, int depth) {
    if (depth > kMaxNesting) text_.refuse(text_.at, "nests too deeply");
    std::vector<RegexNode> found;
    bool anchor = false;
    do {
      found.push_back(sequence(modes, depth));
      anchor |= is_anchor_;
    } while (text_.take("|"));
    is_anchor_ = anchor;
    if (found.size() == 1) return std::move(found.front());
    return RegexNode::of(Kind::alternatives, std::move(found));
  }

  RegexNode sequence(RegexModes modes, int depth) {
    RegexNode made;
    bool anchor = false;
    std::u32string run;  // characters that case folding may join
    const auto finish_run = [&] {
      if (!run.empty()) made.children.push_back(any_case_.of_text(run));
      run.clear();
    };
    while (!text_.done() && text_.peek() != '|' && text_.peek() != ')') {
      if (skip_ignored(text_, modes)) continue;
      const size_t begin = text_.at;
      if (const auto changed = take_modes(modes)) {  // for the rest of this group
        finish_run();
        made.children.push_back(alternatives(*changed, depth + 1));
        is_anchor_ = false;
        return made;
      }
      const auto literal = take_literal(modes);
      if (literal && modes.any_case && !is_repeated(text_, modes)) {
        run.push_back(*literal);
        continue;
      }
      finish_run();
      is_anchor_ = false;
      RegexNode node;
      if (!literal) {
        node = atom(modes, depth);
      } else if (modes.any_case) {
        node = any_case_.of_text(std::u32string(1, *literal));
      } else {
        node = RegexNode::of(CodePointSet(*literal));
      }
      made.children.push_back(quantified(std::move(node), begin, modes));
      anchor = is_anchor_;
    }
    finish_run();
    is_anchor_ = anchor && made.children.size() == 1;
    return made;
  }

  /// "(?i-m)", without a colon.
  std::optional<RegexModes> take_modes(RegexModes modes) {
    const size_t begin = text_.at;
    if (!text_.take("(?")) return std::nullopt;
    if (read_modes(text_, modes) && text_.take(")")) return modes;
    text_.at = begin;
    return std::nullopt;
  }

  /// A character that stands for itself, or its escape.
  std::optional<char32_t> take_literal(const RegexModes&) {
    const char32_t c = text_.peek();
    switch (c) {
      case '.':
      case '[':
      case '(':
      case '^':
      case '$':
      case '*':
      case '+':
      case '?':
        return std::nullopt;
      case '{':
        if (count_follows(text_)) return std::nullopt;
        break;
      case '\\': {
        const size_t begin = text_.at++;
        if (text_.done()) text_.refuse(begin, "ends the pattern");
        if (const auto octal = take_octal()) return octal;
        static constexpr std::u32string_view kOthers = U"dDwWsShHpPRXNOKbBAZzGyYkgcCM123456789";
        if (kOthers.find(text_.peek()) == std::u32string_view::npos)
          return take_character_escape(text_, begin);
        text_.at = begin;
        return std::nullopt;
      }
      default:
        break;
    }
    ++text_.at;
    return c;
  }

  /// Three octal digits of an ASCII character; fewer are a reference to a group.
  std::optional<char32_t> take_octal() {
    char32_t value = 0;
    for (size_t i = 0; i < 3; ++i) {
      if (text_.peek(i) < '0' || text_.peek(i) > '7') return std::nullopt;
      value = value * 8 + (text_.peek(i) - '0');
    }
    if (value >= 0x80) return std::nullopt;
    text_.at += 3;
    return value;
  }

  /// Anything but a literal.
  RegexNode atom(RegexModes modes, int depth) {
    const size_t begin = text_.at;
    const char32_t c = text_.characters[text_.at++];
    switch (c) {
      case '.':
        return any_character(modes.dot_takes_lines);
      case '^':
        is_anchor_ = true;
        return line_begin();
      case '$':
        is_anchor_ = true;
        return line_end();
      case '[':
        return bracketed(begin, modes);
      case '(':
        return group(begin, modes, depth);
      case '\\':
        return escape(begin, modes);
      default:
        text_.refuse(begin, "repeats nothing");
    }
  }

  RegexNode bracketed(size_t begin, const RegexModes& modes) {
    Brackets found = take_brackets(text_, begin);
    if (modes.any_case) return any_case_.of_brackets(std::move(found));
    return RegexNode::of(found.negated ? ~found.set : std::move(found.set));
  }

  RegexNode group(size_t begin, RegexModes modes, int depth) {
    std::optional<Kind> kind;
    bool negated = false, encloses = false;
    if (text_.take("?=")) {
      kind = Kind::ahead;
    } else if (text_.take("?!")) {
      kind = Kind::ahead;
      negated = true;
    } else if (text_.take("?<=")) {
      kind = Kind::behind;
    } else if (text_.take("?<!")) {
      kind = Kind::behind;
      negated = true;
    } else if (text_.take("?>")) {
      kind = Kind::atomic;
    } else if (text_.take("?<") || text_.take("?'")) {
      encloses = has_named_ = true;
      take_group_name(text_, begin);
      if (modes.in_absent_behind) refuse_in_behind(begin, "captures inside a negative look-behind");
    } else if (text_.take("?")) {
      encloses = !text_.take(":");
      if (encloses && !(read_modes(text_, modes) && text_.take(":"))) {
        ++text_.at;
        text_.refuse(begin, "is a kind of group that is not supported");
      }
    } else if (text_.peek() == '*') {
      ++text_.at;
      text_.refuse(begin, "is a kind of group that is not supported");
    } else {
      encloses = true;
      if (modes.in_absent_behind && !plain_in_absent_behind_) plain_in_absent_behind_ = begin;
    }
    if (kind == Kind::ahead && modes.is_in_behind())
      refuse_in_behind(begin, "looks ahead inside a look-behind");
    if (kind == Kind::behind && negated && modes.in_behind)
      refuse_in_behind(begin, "is a negative look-behind inside a look-behind");
    modes.in_behind |= kind == Kind::behind && !negated;
    modes.in_absent_behind |= kind == Kind::behind && negated;
    RegexNode inside = alternatives(modes, depth + 1);
    if (!text_.take(")")) text_.refuse(begin, "has no closing parenthesis");
    if (encloses || kind == Kind::atomic) is_anchor_ = false;
    if (kind == Kind::ahead || kind == Kind::behind) is_anchor_ = true;
    if (kind == Kind::behind) {
      std::vector<RegexNode> ways{inside};
      if (inside.kind == Kind::alternatives) ways = inside.children;
      for (const RegexNode& way : ways) {
        if (!way.width()) text_.refuse(begin, "looks behind at texts of several lengths");
      }
    }
    if (!kind) return inside;
    return RegexNode::of(*kind, {std::move(inside)}, negated);
  }

  [[noreturn]] void refuse_in_behind(size_t begin, std::string_view problem) const {
    text_.refuse(begin, std::string(problem) + ", which Oniguruma refuses");
  }

  RegexNode escape(size_t begin, const RegexModes& modes) {
    if (auto set = take_set_escape(text_, begin, false)) return RegexNode::of(std::move(*set));
    static constexpr std::u32string_view kAnchors = U"AzZbBK";
    const char32_t letter = text_.peek();
    is_anchor_ = kAnchors.find(letter) != std::u32string_view::npos;
    if ((letter == 'z' || letter == 'Z') && modes.is_in_behind()) {
      ++text_.at;
      refuse_in_behind(begin, "looks for the end of the text inside a look-behind");
    }
    if (auto known = shorthand_of(text_.characters[text_.at++])) return std::move(*known);
    text_.refuse(begin, "is an escape that is not supported");
  }

  RegexNode quantified(RegexNode node, size_t begin, const RegexModes& modes) {
    while (true) {
      skip_ignored(text_, modes);
      const auto taken = take_quantifier(text_, begin);
      if (!taken) return node;
      if (is_anchor_)
        text_.refuse(begin,
                     "repeats an anchor or a look-around, alone or as an alternative, which "
                     "Oniguruma refuses");
      RegexNode repeated = RegexNode::of(Kind::repeat, {std::move(node)});
      repeated.least = taken->least;
      repeated.most = taken->most;
      repeated.greed = taken->greed;
      node = std::move(repeated);
    }
  }

  RegexText text_;
  /// Whether what was read last is an anchor or a look-around, or alternatives with one, without a
  /// group around them that captures, changes modes or is atomic.
  bool is_anchor_ = false;
  bool has_named_ = false;                        // a named group
  std::optional<size_t> plain_in_absent_behind_;  // the first "(" in a negative look-behind
  RegexAnyCase any_case_;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace viaduct
