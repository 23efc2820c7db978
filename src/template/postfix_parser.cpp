// What follows an operand: attributes, indices, calls, filters and tests.

#include "template/expression_parser.h"

namespace viaduct::jinja {
namespace {

ExpressionPointer around(ExpressionKind kind, Place place, ExpressionPointer operand) {
  ExpressionPointer made = make_expression(kind, place);
  adopt(*made, std::move(operand));
  return made;
}

/// A chain of `.a.b.c` is a chain of nodes, so its length is limited too.
constexpr int kLongestChain = 300;

}  // namespace

ExpressionPointer ExpressionParser::parse_postfix(ExpressionPointer operand) {
  for (int length = 0;; ++length) {
    if (length > kLongestChain) stream_.fail(stream_.current().place, "nested too deeply");
    if (stream_.is_symbol(".") || stream_.is_symbol("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (stream_.is_symbol("(")) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPointer ExpressionParser::parse_filters_and_tests(ExpressionPointer operand) {
  for (int length = 0;; ++length) {
    if (length > kLongestChain) stream_.fail(stream_.current().place, "nested too deeply");
    if (stream_.skip_symbol("|")) {
      operand = parse_filter(std::move(operand));
    } else if (stream_.skip_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (stream_.is_symbol("(")) {
      operand = parse_call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPointer ExpressionParser::parse_filters(ExpressionPointer operand, bool inline_first) {
  if (inline_first) operand = parse_filter(std::move(operand));
  while (stream_.skip_symbol("|")) operand = parse_filter(std::move(operand));
  return operand;
}

ExpressionPointer ExpressionParser::parse_filter(ExpressionPointer operand) {
  const Token name = stream_.expect_kind(TokenKind::name, "the name of a filter");
  ExpressionPointer made = around(ExpressionKind::filter, name.place, std::move(operand));
  made->text = name.text;
  while (stream_.skip_symbol(".")) {
    made->text += "." + stream_.expect_kind(TokenKind::name, "a name").text;
  }
  if (stream_.is_symbol("(")) parse_arguments(*made);
  return made;
}

ExpressionPointer ExpressionParser::parse_test(ExpressionPointer operand) {
  const Place place = stream_.current().place;
  const bool negated = stream_.skip_name("not");
  const Token name = stream_.expect_kind(TokenKind::name, "the name of a test");
  ExpressionPointer made = around(ExpressionKind::test, name.place, std::move(operand));
  made->text = name.text;
  while (stream_.skip_symbol(".")) {
    made->text += "." + stream_.expect_kind(TokenKind::name, "a name").text;
  }
  const Token& next = stream_.current();
  const bool ends = stream_.is_name("else") || stream_.is_name("or") || stream_.is_name("and");
  if (stream_.is_symbol("(")) {
    parse_arguments(*made);
  } else if (!ends && (next.kind == TokenKind::name || next.kind == TokenKind::text ||
                       next.kind == TokenKind::integer || next.kind == TokenKind::number ||
                       stream_.is_symbol("[") || stream_.is_symbol("{"))) {
    if (stream_.is_name("is")) stream_.fail(next.place, "\"is\" directly behind a test");
    adopt(*made, parse_postfix(parse_primary()));
  }
  if (!negated) return made;
  ExpressionPointer opposite = around(ExpressionKind::unary, place, std::move(made));
  opposite->operation = Operation::logical_not;
  return opposite;
}

ExpressionPointer ExpressionParser::parse_subscript(ExpressionPointer operand) {
  const Token token = stream_.take();
  if (token.text == ".") {
    const Token name = stream_.take();
    if (name.kind == TokenKind::name) {
      ExpressionPointer made = around(ExpressionKind::attribute, name.place, std::move(operand));
      made->text = name.text;
      return made;
    }
    if (name.kind != TokenKind::integer) {
      stream_.fail(name.place, fmt::format("expected a name or an integer behind \".\", found {}",
                                           shown_token(name)));
    }
    ExpressionPointer made = around(ExpressionKind::item, name.place, std::move(operand));
    ExpressionPointer index = make_expression(ExpressionKind::constant, name.place);
    index->value = name.value;
    adopt(*made, std::move(index));
    return made;
  }
  ExpressionPointer made = parse_slice_or_index(std::move(operand), token.place);
  stream_.expect_symbol("]");
  return made;
}

ExpressionPointer ExpressionParser::parse_slice_or_index(ExpressionPointer object, Place place) {
  ExpressionPointer first;
  if (!stream_.is_symbol(":")) {
    first = parse();
    if (!stream_.is_symbol(":")) {
      if (stream_.is_symbol(",")) {
        ExpressionPointer tuple = make_expression(ExpressionKind::tuple, place);
        adopt(*tuple, std::move(first));
        while (stream_.skip_symbol(",") && !stream_.is_symbol("]")) adopt(*tuple, parse());
        first = std::move(tuple);
      }
      ExpressionPointer made = around(ExpressionKind::item, place, std::move(object));
      adopt(*made, std::move(first));
      return made;
    }
  }
  ExpressionPointer made = around(ExpressionKind::slice, place, std::move(object));
  adopt(*made, std::move(first));
  const auto parse_bound = [&]() -> ExpressionPointer {
    if (stream_.is_symbol(":") || stream_.is_symbol("]") || stream_.is_symbol(",")) return nullptr;
    return parse();
  };
  stream_.expect_symbol(":");
  adopt(*made, parse_bound());
  adopt(*made, stream_.skip_symbol(":") ? parse_bound() : nullptr);
  return made;
}

ExpressionPointer ExpressionParser::parse_call(ExpressionPointer operand) {
  ExpressionPointer made =
      around(ExpressionKind::call, stream_.current().place, std::move(operand));
  parse_arguments(*made);
  return made;
}

void ExpressionParser::parse_arguments(Expression& call) {
  stream_.expect_symbol("(");
  bool first = true;
  while (!stream_.is_symbol(")")) {
    if (!first) stream_.expect_symbol(",");
    if (stream_.is_symbol(")")) break;
    first = false;
    const Place place = stream_.current().place;
    const auto ensure = [&](bool right) {
      if (!right) stream_.fail(place, "an argument in the wrong order");
    };
    if (stream_.skip_symbol("*")) {
      ensure(!call.more_positional && !call.more_named);
      call.more_positional = parse();
      note_depth(call, *call.more_positional);
    } else if (stream_.skip_symbol("**")) {
      ensure(!call.more_named);
      call.more_named = parse();
      note_depth(call, *call.more_named);
    } else if (stream_.is_kind(TokenKind::name) && stream_.following().kind == TokenKind::symbol &&
               stream_.following().text == "=") {
      ensure(!call.more_named);
      NamedArgument argument;
      argument.name = stream_.take().text;
      stream_.take();
      argument.value = parse();
      note_depth(call, *argument.value);
      for (const NamedArgument& other : call.named) {
        if (other.name == argument.name) {
          stream_.fail(place, fmt::format("the argument \"{}\" appears twice", other.name));
        }
      }
      call.named.push_back(std::move(argument));
    } else {
      ensure(!call.more_positional && !call.more_named && call.named.empty());
      adopt(call, parse());
    }
  }
  stream_.expect_symbol(")");
}

}  // namespace viaduct::jinja
