#include "template/lexer.h"

#include "template/literals.h"
#include "template/template_error.h"
#include "template/unicode_text.h"

namespace viaduct::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Line ends as "\n", without the last one.
std::string with_plain_line_ends(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string text, const std::string& where) : text_(std::move(text)), where_(where) {}

  std::vector<Token> tokens() {
    while (at_ < text_.size()) {
      read_data();
    }
    tokens_.push_back({TokenKind::end, "", {}, place_of(at_)});
    return std::move(tokens_);
  }

 private:
  Place place_of(size_t at) {
    for (; counted_ < at && counted_ < text_.size(); ++counted_) {
      if (text_[counted_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if (!is_continuation(text_[counted_])) {
        ++place_.column;
      }
    }
    return place_;
  }
  [[noreturn]] void fail(size_t at, const std::string& problem) {
    // Places are counted forwards only; an earlier one is counted anew.
    if (at < counted_) {
      counted_ = 0;
      place_ = {};
    }
    fail_at(where_, place_of(at), problem);
  }
  bool next_is(std::string_view what, size_t at) const {
    return std::string_view(text_).substr(at, what.size()) == what;
  }
  void add(TokenKind kind, std::string text, size_t at, TemplateValue value = {}) {
    tokens_.push_back({kind, std::move(text), std::move(value), place_of(at)});
  }
  size_t skip_space(size_t at) const {
    const std::string_view rest = std::string_view(text_).substr(at);
    return at + (rest.size() - strip(rest, true, false).size());
  }
  /// The end of "{% raw %}" that begins at `at`, 0 if there is none. `word`: raw or endraw.
  size_t end_of_word_tag(size_t at, std::string_view word, bool trims) const {
    if (!next_is("{%", at)) return 0;
    size_t end = at + 2;
    if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
    end = skip_space(end);
    if (!next_is(word, end)) return 0;
    end = skip_space(end + word.size());
    if (next_is("-%}", end)) return skip_space(end + 3);
    if (trims && next_is("+%}", end)) return end + 3;
    if (!next_is("%}", end)) return 0;
    end += 2;
    return trims && next_is("\n", end) ? end + 1 : end;
  }
  /// Adds the text before a tag at `tag`, as the tag's sign demands.
  void add_data(size_t begin, size_t tag, bool strips_line) {
    std::string_view data = std::string_view(text_).substr(begin, tag - begin);
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    if (sign == '-') {
      data = strip(data, false, true);
    } else if (sign != '+' && strips_line) {
      const size_t line = data.rfind('\n');
      const size_t from = line == std::string_view::npos ? 0 : line + 1;
      if ((from > 0 || line_starting_) && strip(data.substr(from), true, false).empty()) {
        data = data.substr(0, from);
      }
    }
    if (!data.empty()) add(TokenKind::data, std::string(data), begin);
  }
  void finish_tag(size_t end) {
    line_starting_ = end > 0 && text_[end - 1] == '\n';
    at_ = end;
  }

  /// From text to behind the next tag.
  void read_data() {
    const size_t begin = at_;
    size_t tag = begin;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        add(TokenKind::data, text_.substr(begin), begin);
        at_ = text_.size();
        return;
      }
      const char next = text_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    const char next = text_[tag + 1];
    if (const size_t raw = end_of_word_tag(tag, "raw", false); raw > 0) {
      add_data(begin, tag, true);
      finish_tag(raw);
      read_raw(tag);
      return;
    }
    add_data(begin, tag, next != '{');
    size_t inside = tag + 2;
    if (inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+')) ++inside;
    at_ = inside;
    if (next == '#') {
      read_comment(tag);
    } else {
      add(next == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "", tag);
      read_code(next == '%', tag);
    }
  }

  void read_raw(size_t tag) {
    const size_t begin = at_;
    for (size_t end = text_.find("{%", begin); end != std::string::npos;
         end = text_.find("{%", end + 1)) {
      const size_t behind = end_of_word_tag(end, "endraw", true);
      if (behind == 0) continue;
      add_data(begin, end, true);
      finish_tag(behind);
      return;
    }
    fail(tag, "a raw block without {% endraw %}");
  }

  void read_comment(size_t tag) {
    const size_t end = text_.find("#}", at_);
    if (end == std::string::npos) fail(tag, "a comment without its end, #}");
    const char sign = end > at_ ? text_[end - 1] : ' ';
    size_t behind = end + 2;
    if (sign == '-') {
      behind = skip_space(behind);
    } else if (sign != '+' && next_is("\n", behind)) {
      ++behind;
    }
    finish_tag(behind);
  }

  /// Whether the tag ends here; then behind it.
  bool read_end(bool block) {
    const std::string_view plain = block ? "%}" : "}}";
    size_t begin = at_, behind = 0;
    if (next_is(plain, at_)) {
      behind = at_ + 2;
      if (block && next_is("\n", behind)) ++behind;
    } else if (text_[at_] == '-' && next_is(plain, at_ + 1)) {
      behind = skip_space(at_ + 3);
    } else if (block && text_[at_] == '+' && next_is(plain, at_ + 1)) {
      behind = at_ + 3;
    } else {
      return false;
    }
    add(block ? TokenKind::block_end : TokenKind::variable_end, "", begin);
    finish_tag(behind);
    return true;
  }

  void read_code(bool block, size_t tag) {
    std::string open;  // brackets that are open: inside of them a tag does not end
    while (true) {
      at_ = skip_space(at_);
      if (at_ >= text_.size()) {
        fail(tag, fmt::format("a tag without its end, {}", block ? "%}" : "}}"));
      }
      if (open.empty() && read_end(block)) return;
      const char c = text_[at_];
      if (is_digit(c)) {
        read_literal(TokenKind::number);
      } else if (is_name_byte(c)) {
        const size_t begin = at_;
        while (at_ < text_.size() && is_name_byte(text_[at_])) ++at_;
        add(TokenKind::name, text_.substr(begin, at_ - begin), begin);
      } else if (c == '"' || c == '\'') {
        read_literal(TokenKind::text);
      } else {
        read_symbol(open);
      }
    }
  }

  void read_symbol(std::string& open) {
    static constexpr std::string_view kSymbols[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view symbol : kSymbols) {
      if (!next_is(symbol, at_)) continue;
      const char c = symbol[0];
      if (c == '(') open += ')';
      if (c == '[') open += ']';
      if (c == '{') open += '}';
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty()) fail(at_, fmt::format("unexpected \"{}\"", c));
        if (open.back() != c)
          fail(at_, fmt::format("expected \"{}\", found \"{}\"", open.back(), c));
        open.pop_back();
      }
      add(TokenKind::symbol, std::string(symbol), at_);
      at_ += symbol.size();
      return;
    }
    fail(at_, fmt::format("unexpected character \"{}\"", text_[at_]));
  }

  /// A number or a text in quotes.
  void read_literal(TokenKind text_kind) {
    const size_t begin = at_;
    try {
      if (text_kind == TokenKind::text) {
        add(TokenKind::text, read_quoted_text(text_, at_), begin);
        return;
      }
      const TemplateValue number = read_number(text_, at_);
      const TokenKind kind = number.is_float() ? TokenKind::number : TokenKind::integer;
      add(kind, text_.substr(begin, at_ - begin), begin, number);
    } catch (const TemplateFault& fault) {
      fail(begin, fault.what());
    }
  }

  std::string text_;
  const std::string& where_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool line_starting_ = true;
  size_t counted_ = 0;  // bytes that place_ counts
  Place place_;
};

}  // namespace

std::string shown_token(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::variable_begin:
      return "{{";
    case TokenKind::variable_end:
      return "}}";
    case TokenKind::text:
      return "a text in quotes";
    case TokenKind::end:
      return "the end of the template";
    default:
      return '"' + token.text + '"';
  }
}

std::vector<Token> tokenize(std::string_view source, const std::string& where) {
  return Lexer(with_plain_line_ends(source), where).tokens();
}

void fail_at(const std::string& where, Place place, const std::string& problem) {
  throw TemplateError(
      fmt::format("{}, line {}, column {}: {}", where, place.line, place.column, problem));
}

}  // namespace viaduct::jinja
