// Oniguruma's dialect to a tree.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/regex_any_case.h"
#include "data/tokenizer/regex_brackets.h"
#include "data/tokenizer/regex_quantifiers.h"
#include "data/tokenizer/regex_shorthands.h"
#include "data/tokenizer/regex_tree.h"

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;

constexpr int kMaxNesting = 200;

struct Modes {
  bool any_case = false, dot_takes_lines = false, extended = false;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  RegexNode parse() {
    RegexNode whole = alternatives({}, 0);
    if (!text_.done()) text_.refuse(text_.at, "closes no group");
    return whole;
  }

 private:
  /// Up to the end or a ")", which stays.
  RegexNode alternatives(Modes modes, int depth) {
    if (depth > kMaxNesting) text_.refuse(text_.at, "nests too deeply");
    std::vector<RegexNode> found;
    do {
      found.push_back(sequence(modes, depth));
    } while (text_.take("|"));
    if (found.size() == 1) return std::move(found.front());
    return RegexNode::of(Kind::alternatives, std::move(found));
  }

  RegexNode sequence(Modes modes, int depth) {
    RegexNode made;
    std::u32string run;  // characters that case folding may join
    const auto finish_run = [&] {
      if (!run.empty()) made.children.push_back(any_case_.of_text(run));
      run.clear();
    };
    while (!text_.done() && text_.peek() != '|' && text_.peek() != ')') {
      if (modes.extended && skip_extended()) continue;
      const size_t begin = text_.at;
      if (const auto changed = take_modes(modes)) {  // for the rest of this group
        finish_run();
        made.children.push_back(alternatives(*changed, depth + 1));
        return made;
      }
      const auto literal = take_literal(modes);
      if (literal && modes.any_case && !quantifier_follows(text_)) {
        run.push_back(*literal);
        continue;
      }
      finish_run();
      std::optional<RegexNode> node;
      if (literal) {
        node = modes.any_case ? any_case_.of_text(std::u32string(1, *literal))
                              : RegexNode::of(CodePointSet(*literal));
      } else {
        node = atom(modes, depth);
      }
      if (node) made.children.push_back(quantified(std::move(*node), begin, modes));
    }
    finish_run();
    return made;
  }

  /// In extended mode: white space and comments.
  bool skip_extended() {
    const char32_t c = text_.peek();
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      ++text_.at;
      return true;
    }
    if (c != '#') return false;
    while (!text_.done() && text_.peek() != '\n') ++text_.at;
    return true;
  }

  /// "(?i-m)", without a colon.
  std::optional<Modes> take_modes(Modes modes) {
    const size_t begin = text_.at;
    if (!text_.take("(?")) return std::nullopt;
    if (read_modes(modes, begin) && text_.take(")")) return modes;
    text_.at = begin;
    return std::nullopt;
  }

  /// Letters of modes up to ":" or ")"; false, at the place before them, if there are others.
  bool read_modes(Modes& modes, size_t) {
    const size_t begin = text_.at;
    bool on = true;
    for (;; ++text_.at) {
      switch (text_.peek()) {
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
          if (text_.at > begin) return true;
          [[fallthrough]];
        default:
          text_.at = begin;
          return false;
      }
    }
  }

  /// A character that stands for itself, or its escape.
  std::optional<char32_t> take_literal(const Modes&) {
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

  /// Anything but a literal. Nothing for comments.
  std::optional<RegexNode> atom(Modes modes, int depth) {
    const size_t begin = text_.at;
    const char32_t c = text_.characters[text_.at++];
    switch (c) {
      case '.':
        return any_character(modes.dot_takes_lines);
      case '^':
        return line_begin();
      case '$':
        return line_end();
      case '[':
        return bracketed(begin, modes);
      case '(':
        return group(begin, modes, depth);
      case '\\':
        return escape(begin);
      default:
        text_.refuse(begin, "repeats nothing");
    }
  }

  RegexNode bracketed(size_t begin, const Modes& modes) {
    Brackets found = take_brackets(text_, begin);
    if (modes.any_case) return any_case_.of_brackets(std::move(found));
    return RegexNode::of(found.negated ? ~found.set : std::move(found.set));
  }

  std::optional<RegexNode> group(size_t begin, Modes modes, int depth) {
    std::optional<Kind> kind;
    bool negated = false;
    if (text_.take("?#")) {
      while (!text_.done() && text_.peek() != ')') ++text_.at;
      if (!text_.take(")")) text_.refuse(begin, "has no closing parenthesis");
      return std::nullopt;
    }
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
      const char32_t close = text_.characters[text_.at - 1] == '<' ? '>' : '\'';
      size_t letters = 0;
      for (; !text_.done() && text_.peek() != close; ++letters) ++text_.at;
      if (text_.done() || letters == 0) text_.refuse(begin, "is a group without a name");
      ++text_.at;
    } else if (text_.take("?")) {
      if (!text_.take(":") && !(read_modes(modes, begin) && text_.take(":"))) {
        ++text_.at;
        text_.refuse(begin, "is a kind of group that is not supported");
      }
    } else if (text_.peek() == '*') {
      ++text_.at;
      text_.refuse(begin, "is a kind of group that is not supported");
    }
    RegexNode inside = alternatives(modes, depth + 1);
    if (!text_.take(")")) text_.refuse(begin, "has no closing parenthesis");
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

  RegexNode escape(size_t begin) {
    if (auto set = take_set_escape(text_, begin, false)) return RegexNode::of(std::move(*set));
    if (auto known = shorthand_of(text_.characters[text_.at++])) return std::move(*known);
    text_.refuse(begin, "is an escape that is not supported");
  }

  RegexNode quantified(RegexNode node, size_t begin, const Modes& modes) {
    while (true) {
      if (modes.extended) {
        while (!text_.done() && skip_extended()) {
        }
      }
      const auto taken = take_quantifier(text_, begin);
      if (!taken) return node;
      RegexNode repeated = RegexNode::of(Kind::repeat, {std::move(node)});
      repeated.least = taken->least;
      repeated.most = taken->most;
      repeated.greed = taken->greed;
      node = std::move(repeated);
    }
  }

  RegexText text_;
  RegexAnyCase any_case_;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace viaduct
