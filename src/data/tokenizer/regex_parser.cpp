// Oniguruma's dialect to a tree.

#include <algorithm>

#include "data/tokenizer/regex_brackets.h"
#include "data/tokenizer/regex_tree.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

using Kind = RegexNode::Kind;
using Greed = RegexNode::Greed;

constexpr int kMaxNesting = 200;
constexpr int kMaxCount = 100000;  // Oniguruma's own limit
// Without case one character may stand for so many.
constexpr size_t kMostJoined = 3;

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
      if (!run.empty()) made.children.push_back(folded(run));
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
      if (literal && modes.any_case && !quantifier_follows()) {
        run.push_back(*literal);
        continue;
      }
      finish_run();
      std::optional<RegexNode> node;
      if (literal) {
        node = modes.any_case ? folded(std::u32string(1, *literal))
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
        if (count_follows()) return std::nullopt;
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
    const CodePointSet line_end('\n');
    switch (c) {
      case '.':
        return RegexNode::of(modes.dot_takes_lines ? CodePointSet::all() : ~line_end);
      case '^':
        return RegexNode::of(
            Kind::alternatives,
            {RegexNode::of(Kind::text_begin, {}),
             RegexNode::of(
                 Kind::sequence,
                 {RegexNode::of(Kind::behind, {RegexNode::of(line_end)}),
                  RegexNode::of(Kind::ahead, {RegexNode::of(Kind::text_end, {})}, true)})});
      case '$':
        return RegexNode::of(Kind::alternatives,
                             {RegexNode::of(Kind::text_end, {}),
                              RegexNode::of(Kind::ahead, {RegexNode::of(line_end)})});
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
    std::vector<RegexNode> longer;
    if (modes.any_case) {
      if (!found.negated) {
        for (const std::u32string& spelled : folding().longer(found.set))
          longer.push_back(folded(spelled));
      }
      found.set = folding().closure(found.set);
    }
    RegexNode set = RegexNode::of(found.negated ? ~found.set : std::move(found.set));
    if (longer.empty()) return set;
    longer.insert(longer.begin(), std::move(set));
    return RegexNode::of(Kind::alternatives, std::move(longer));
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
    const char32_t letter = text_.characters[text_.at++];
    const CodePointSet line_end('\n');
    switch (letter) {
      case 'N':
        return RegexNode::of(~line_end);
      case 'O':
        return RegexNode::of(CodePointSet::all());
      case 'R': {
        RegexNode pair = RegexNode::of(
            Kind::sequence, {RegexNode::of(CodePointSet('\r')), RegexNode::of(line_end)});
        const CodePointSet single = CodePointSet::range('\n', '\r') | CodePointSet(0x85) |
                                    CodePointSet::range(0x2028, 0x2029);
        return RegexNode::of(
            Kind::atomic,
            {RegexNode::of(Kind::alternatives, {std::move(pair), RegexNode::of(single)})});
      }
      case 'A':
        return RegexNode::of(Kind::text_begin, {});
      case 'z':
        return RegexNode::of(Kind::text_end, {});
      case 'Z':
        return RegexNode::of(
            Kind::ahead,
            {RegexNode::of(Kind::alternatives,
                           {RegexNode::of(Kind::text_end, {}),
                            RegexNode::of(Kind::sequence, {RegexNode::of(line_end),
                                                           RegexNode::of(Kind::text_end, {})})})});
      case 'b':
      case 'B':
        return word_border(letter == 'B');
      case 'K':
        return RegexNode::of(Kind::keep, {});
      default:
        text_.refuse(begin, "is an escape that is not supported");
    }
  }

  /// Where a word character is on exactly one side, or not.
  static RegexNode word_border(bool negated) {
    const auto side = [](Kind kind, bool absent) {
      return RegexNode::of(kind, {RegexNode::of(*property_set("word"))}, absent);
    };
    return RegexNode::of(
        Kind::alternatives,
        {RegexNode::of(Kind::sequence, {side(Kind::behind, false), side(Kind::ahead, !negated)}),
         RegexNode::of(Kind::sequence, {side(Kind::behind, true), side(Kind::ahead, negated)})});
  }

  bool quantifier_follows() const {
    const char32_t c = text_.peek();
    return text_.has() && (c == '*' || c == '+' || c == '?' || (c == '{' && count_follows()));
  }

  /// Whether "{2}", "{2,}", "{,2}" or "{2,3}" comes next.
  bool count_follows() const {
    RegexText ahead = text_;
    int least = 0, most = 0;
    return take_count(ahead, least, most);
  }

  static bool take_count(RegexText& text, int& least, int& most) {
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

  RegexNode quantified(RegexNode node, size_t begin, const Modes& modes) {
    while (true) {
      if (modes.extended) {
        while (!text_.done() && skip_extended()) {
        }
      }
      int least = 0, most = RegexNode::kUnlimited;
      bool count = false;
      if (text_.take("*")) {
      } else if (text_.take("+")) {
        least = 1;
      } else if (text_.take("?")) {
        most = 1;
      } else if (text_.peek() == '{' && count_follows()) {
        take_count(text_, least, most);
        count = true;
      } else {
        return node;
      }
      if (most != RegexNode::kUnlimited && most < least)
        text_.refuse(begin, "repeats at most fewer times than at least");
      if (std::max(least, most) > kMaxCount) text_.refuse(begin, "repeats too often");
      RegexNode repeated = RegexNode::of(Kind::repeat, {std::move(node)});
      repeated.least = least;
      repeated.most = most;
      if (count && least == most) {
        node = std::move(repeated);  // "{2}?" is a text that may be missing, "{2}+" one repeated
        continue;
      }
      if (text_.take("?")) {
        repeated.greed = Greed::lazy;
      } else if (!count && text_.take("+")) {
        repeated.greed = Greed::possessive;
      }
      node = std::move(repeated);
    }
  }

  const CaseFolding& folding() {
    if (!folding_) folding_.emplace();
    return *folding_;
  }

  /// `run` in any case. One character may stand for several: as Oniguruma does, for the most that
  /// one can stand for from each place on, and then the next place is behind them.
  RegexNode folded(std::u32string_view run) {
    RegexNode made;
    while (!run.empty()) {
      CodePointSet whole;
      size_t length = kMostJoined + 1;
      while (whole.empty() && --length > 1) {
        if (length <= run.size()) whole = folding().standing_for(run.substr(0, length));
      }
      RegexNode letters;
      for (const char32_t c : run.substr(0, length))
        letters.children.push_back(folded_character(c));
      if (length > 1)
        letters = RegexNode::of(Kind::alternatives, {RegexNode::of(whole), std::move(letters)});
      made.children.push_back(std::move(letters));
      run.remove_prefix(length);
    }
    return made;
  }

  RegexNode folded_character(char32_t character) {
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

  RegexText text_;
  std::optional<CaseFolding> folding_;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace viaduct
