#pragma once
// Expressions of a template.

#include <string_view>

#include "template/token_stream.h"

namespace viaduct::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  /// `conditional`: whether `a if b else c` is read.
  ExpressionPointer parse(bool conditional = true);
  /// An expression, or a tuple without brackets. `end`: a name that ends it (may be empty).
  ExpressionPointer parse_tuple(bool conditional = true, std::string_view end = {},
                                bool in_brackets = false);
  /// Filters behind `operand` (null: the text of a block). `inline_first`: the first filter has no
  /// `|` before it.
  ExpressionPointer parse_filters(ExpressionPointer operand, bool inline_first);
  /// A name, as a parameter or what a macro is called.
  Token parse_plain_name();
  /// What is assigned to, up to the name `end`. `attributes`: namespaces' too.
  Target parse_target(std::string_view end, bool attributes);

 private:
  ExpressionPointer parse_or();
  ExpressionPointer parse_and();
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_sum();
  ExpressionPointer parse_concat();
  ExpressionPointer parse_product();
  ExpressionPointer parse_power();
  ExpressionPointer parse_unary(bool with_filters);
  ExpressionPointer parse_primary();
  ExpressionPointer parse_list();
  ExpressionPointer parse_map();
  ExpressionPointer parse_postfix(ExpressionPointer operand);
  ExpressionPointer parse_filters_and_tests(ExpressionPointer operand);
  ExpressionPointer parse_filter(ExpressionPointer operand);
  ExpressionPointer parse_test(ExpressionPointer operand);
  ExpressionPointer parse_subscript(ExpressionPointer operand);
  ExpressionPointer parse_slice_or_index(ExpressionPointer object, Place place);
  ExpressionPointer parse_call(ExpressionPointer operand);
  void parse_arguments(Expression& call);
  Target parse_one_target(bool attributes);
  bool at_tuple_end(std::string_view end) const;

  TokenStream& stream_;
};

}  // namespace viaduct::jinja
