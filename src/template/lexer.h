#pragma once
// A template's text as tokens, with Jinja's rules of white space (trim_blocks, lstrip_blocks, `-`
// and `+` at tags).

#include <string>
#include <string_view>
#include <vector>

#include "template/syntax_tree.h"

namespace viaduct::jinja {

enum class TokenKind {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  text,
  integer,
  number,
  symbol,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;     // of data, names, texts (without quotes and escapes) and symbols
  TemplateValue value;  // of numbers
  Place place;
};

/// How a message calls a token.
std::string shown_token(const Token& token);

/// The tokens of `source`; TemplateError that starts with `where`.
std::vector<Token> tokenize(std::string_view source, const std::string& where);

[[noreturn]] void fail_at(const std::string& where, Place place, const std::string& problem);

}  // namespace viaduct::jinja
