// Operands: names, constants, tuples, lists and maps; and what is assigned to.

#include "template/expression_parser.h"

#include <utility>
#include <vector>

namespace viaduct::jinja {

ExpressionPointer ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  const Place place = token.place;
  ExpressionPointer made = make_expression(ExpressionKind::constant, place);
  if (token.kind == TokenKind::name) {
    const std::string name = stream_.take().text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      made->value = name == "true" || name == "True";
    } else if (name != "none" && name != "None") {
      made->kind = ExpressionKind::name;
      made->name = stream_.number_of(name);
      made->text = name;
    }
    return made;
  }
  if (token.kind == TokenKind::text) {
    std::string text;
    while (stream_.is_kind(TokenKind::text)) text += stream_.take().text;
    made->value = TemplateValue(std::move(text));
    return made;
  }
  if (token.kind == TokenKind::integer || token.kind == TokenKind::number) {
    made->value = stream_.take().value;
    return made;
  }
  if (stream_.skip_symbol("(")) {
    made = parse_tuple(true, {}, true);
    stream_.expect_symbol(")");
    return made;
  }
  if (stream_.is_symbol("[")) return parse_list();
  if (stream_.is_symbol("{")) return parse_map();
  stream_.fail_expected("an expression");
}

bool ExpressionParser::at_tuple_end(std::string_view end) const {
  return stream_.is_kind(TokenKind::variable_end) || stream_.is_kind(TokenKind::block_end) ||
         stream_.is_symbol(")") || (!end.empty() && stream_.is_name(end));
}

ExpressionPointer ExpressionParser::parse_tuple(bool conditional, std::string_view end,
                                                bool in_brackets) {
  const Place place = stream_.current().place;
  std::vector<ExpressionPointer> items;
  bool is_tuple = false;
  while (!at_tuple_end(end)) {
    items.push_back(parse(conditional));
    if (!stream_.skip_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_brackets) stream_.fail_expected("an expression");
  ExpressionPointer made = make_expression(ExpressionKind::tuple, place);
  for (ExpressionPointer& item : items) adopt(*made, std::move(item));
  return made;
}

ExpressionPointer ExpressionParser::parse_list() {
  ExpressionPointer made = make_expression(ExpressionKind::list, stream_.take().place);
  while (!stream_.is_symbol("]")) {
    if (!made->parts.empty()) stream_.expect_symbol(",");
    if (stream_.is_symbol("]")) break;
    adopt(*made, parse());
  }
  stream_.expect_symbol("]");
  return made;
}

ExpressionPointer ExpressionParser::parse_map() {
  ExpressionPointer made = make_expression(ExpressionKind::map, stream_.take().place);
  while (!stream_.is_symbol("}")) {
    if (!made->parts.empty()) stream_.expect_symbol(",");
    if (stream_.is_symbol("}")) break;
    adopt(*made, parse());
    stream_.expect_symbol(":");
    adopt(*made, parse());
  }
  stream_.expect_symbol("}");
  return made;
}

Token ExpressionParser::parse_plain_name() {
  Token token = stream_.expect_kind(TokenKind::name, "a name");
  for (const char* fixed : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == fixed) {
      stream_.fail(token.place, fmt::format("expected a name, found \"{}\"", token.text));
    }
  }
  return token;
}

Target ExpressionParser::parse_one_target(bool attributes) {
  Target target;
  target.place = stream_.current().place;
  if (stream_.skip_symbol("(")) {
    const TokenStream::Level level(stream_);
    target = parse_target({}, attributes);
    stream_.expect_symbol(")");
    return target;
  }
  const Token token = parse_plain_name();
  target.name = stream_.number_of(token.text);
  target.text = token.text;
  if (attributes && stream_.skip_symbol(".")) {
    target.attribute = stream_.expect_kind(TokenKind::name, "a name").text;
  }
  return target;
}

Target ExpressionParser::parse_target(std::string_view end, bool attributes) {
  Target target;
  target.place = stream_.current().place;
  while (!at_tuple_end(end)) {
    target.parts.push_back(parse_one_target(attributes));
    if (!stream_.skip_symbol(",")) break;
    target.is_tuple = true;
  }
  if (target.parts.empty()) stream_.fail_expected("a name");
  if (target.is_tuple) return target;
  Target only = std::move(target.parts[0]);
  return only;
}

}  // namespace viaduct::jinja
