#include "template/expression_parser.h"

#include <array>
#include <optional>

namespace viaduct::jinja {
namespace {

ExpressionPointer make(ExpressionKind kind, Place place) {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->place = place;
  return made;
}

ExpressionPointer binary(Operation operation, Place place, ExpressionPointer left,
                         ExpressionPointer right) {
  ExpressionPointer made = make(ExpressionKind::binary, place);
  made->operation = operation;
  adopt(*made, std::move(left));
  adopt(*made, std::move(right));
  return made;
}

ExpressionPointer unary(Operation operation, Place place, ExpressionPointer operand) {
  ExpressionPointer made = make(ExpressionKind::unary, place);
  made->operation = operation;
  adopt(*made, std::move(operand));
  return made;
}

std::optional<Operation> symbol_operation(const Token& token, std::string_view allowed) {
  struct Known {
    std::string_view symbol;
    Operation operation;
    char group;
  };
  static constexpr std::array<Known, 13> kKnown{{{"==", Operation::equal, 'c'},
                                                 {"!=", Operation::unequal, 'c'},
                                                 {"<", Operation::less, 'c'},
                                                 {"<=", Operation::less_equal, 'c'},
                                                 {">", Operation::greater, 'c'},
                                                 {">=", Operation::greater_equal, 'c'},
                                                 {"+", Operation::add, 's'},
                                                 {"-", Operation::subtract, 's'},
                                                 {"*", Operation::multiply, 'p'},
                                                 {"/", Operation::divide, 'p'},
                                                 {"//", Operation::floor_divide, 'p'},
                                                 {"%", Operation::modulo, 'p'},
                                                 {"**", Operation::power, 'w'}}};
  if (token.kind != TokenKind::symbol) return std::nullopt;
  for (const Known& known : kKnown) {
    if (known.symbol == token.text && known.group == allowed[0]) return known.operation;
  }
  return std::nullopt;
}

}  // namespace

ExpressionPointer ExpressionParser::parse(bool conditional) {
  const TokenStream::Level level(stream_);
  if (!conditional) return parse_or();
  Place place = stream_.current().place;
  ExpressionPointer result = parse_or();
  while (stream_.skip_name("if")) {
    ExpressionPointer made = make(ExpressionKind::conditional, place);
    adopt(*made, parse_or());
    adopt(*made, std::move(result));
    adopt(*made, stream_.skip_name("else") ? parse() : nullptr);
    result = std::move(made);
    place = stream_.current().place;
  }
  return result;
}

ExpressionPointer ExpressionParser::parse_or() {
  ExpressionPointer left = parse_and();
  while (stream_.is_name("or")) {
    const Place place = stream_.take().place;
    left = binary(Operation::logical_or, place, std::move(left), parse_and());
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_and() {
  ExpressionPointer left = parse_not();
  while (stream_.is_name("and")) {
    const Place place = stream_.take().place;
    left = binary(Operation::logical_and, place, std::move(left), parse_not());
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_not() {
  if (!stream_.is_name("not")) return parse_comparison();
  const TokenStream::Level level(stream_);
  const Place place = stream_.take().place;
  return unary(Operation::logical_not, place, parse_not());
}

ExpressionPointer ExpressionParser::parse_comparison() {
  ExpressionPointer first = parse_sum();
  ExpressionPointer comparison;
  const auto add = [&](Operation operation, Place place) {
    if (!comparison) {
      comparison = make(ExpressionKind::comparison, place);
      adopt(*comparison, std::move(first));
    }
    comparison->operations.push_back(operation);
    adopt(*comparison, parse_sum());
  };
  while (true) {
    const Place place = stream_.current().place;
    if (const auto operation = symbol_operation(stream_.current(), "c")) {
      stream_.take();
      add(*operation, place);
    } else if (stream_.skip_name("in")) {
      add(Operation::in, place);
    } else if (stream_.is_name("not") && TokenStream::is_name(stream_.following(), "in")) {
      stream_.take();
      stream_.take();
      add(Operation::not_in, place);
    } else {
      return comparison ? std::move(comparison) : std::move(first);
    }
  }
}

ExpressionPointer ExpressionParser::parse_sum() {
  ExpressionPointer left = parse_concat();
  while (const auto operation = symbol_operation(stream_.current(), "s")) {
    const Place place = stream_.take().place;
    left = binary(*operation, place, std::move(left), parse_concat());
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_concat() {
  ExpressionPointer first = parse_product();
  if (!stream_.is_symbol("~")) return first;
  ExpressionPointer made = make(ExpressionKind::binary, stream_.current().place);
  made->operation = Operation::concat;
  adopt(*made, std::move(first));
  while (stream_.skip_symbol("~")) adopt(*made, parse_product());
  return made;
}

ExpressionPointer ExpressionParser::parse_product() {
  ExpressionPointer left = parse_power();
  while (const auto operation = symbol_operation(stream_.current(), "p")) {
    const Place place = stream_.take().place;
    left = binary(*operation, place, std::move(left), parse_power());
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_power() {
  ExpressionPointer left = parse_unary(true);
  while (const auto operation = symbol_operation(stream_.current(), "w")) {
    const Place place = stream_.take().place;
    left = binary(*operation, place, std::move(left), parse_unary(true));
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_unary(bool with_filters) {
  const TokenStream::Level level(stream_);
  const Place place = stream_.current().place;
  ExpressionPointer operand;
  if (stream_.skip_symbol("-")) {
    operand = unary(Operation::negative, place, parse_unary(false));
  } else if (stream_.skip_symbol("+")) {
    operand = unary(Operation::positive, place, parse_unary(false));
  } else {
    operand = parse_primary();
  }
  operand = parse_postfix(std::move(operand));
  return with_filters ? parse_filters_and_tests(std::move(operand)) : std::move(operand);
}

ExpressionPointer ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  const Place place = token.place;
  ExpressionPointer made = make(ExpressionKind::constant, place);
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
  ExpressionPointer made = make(ExpressionKind::tuple, place);
  for (ExpressionPointer& item : items) adopt(*made, std::move(item));
  return made;
}

ExpressionPointer ExpressionParser::parse_list() {
  ExpressionPointer made = make(ExpressionKind::list, stream_.take().place);
  while (!stream_.is_symbol("]")) {
    if (!made->parts.empty()) stream_.expect_symbol(",");
    if (stream_.is_symbol("]")) break;
    adopt(*made, parse());
  }
  stream_.expect_symbol("]");
  return made;
}

ExpressionPointer ExpressionParser::parse_map() {
  ExpressionPointer made = make(ExpressionKind::map, stream_.take().place);
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
