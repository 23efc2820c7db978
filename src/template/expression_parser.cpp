// Operators, by their precedence.

#include "template/expression_parser.h"

#include <array>
#include <optional>

namespace viaduct::jinja {
namespace {

ExpressionPointer binary(Operation operation, Place place, ExpressionPointer left,
                         ExpressionPointer right) {
  ExpressionPointer made = make_expression(ExpressionKind::binary, place);
  made->operation = operation;
  adopt(*made, std::move(left));
  adopt(*made, std::move(right));
  return made;
}

ExpressionPointer unary(Operation operation, Place place, ExpressionPointer operand) {
  ExpressionPointer made = make_expression(ExpressionKind::unary, place);
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
    ExpressionPointer made = make_expression(ExpressionKind::conditional, place);
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
      comparison = make_expression(ExpressionKind::comparison, place);
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
  ExpressionPointer made = make_expression(ExpressionKind::binary, stream_.current().place);
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

}  // namespace viaduct::jinja
