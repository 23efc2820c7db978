#include "template/tree_names.h"

#include <algorithm>

namespace viaduct::jinja {
namespace {

bool uses(const Expression* expression, std::string_view name) {
  if (expression == nullptr) return false;
  if (expression->kind == ExpressionKind::name && expression->text == name) return true;
  const auto any = [&](const ExpressionPointer& part) { return uses(part.get(), name); };
  return std::any_of(expression->parts.begin(), expression->parts.end(), any) ||
         std::any_of(expression->named.begin(), expression->named.end(),
                     [&](const NamedArgument& argument) { return any(argument.value); }) ||
         any(expression->more_positional) || any(expression->more_named);
}

}  // namespace

bool body_uses(const Body& body, std::string_view name) {
  return std::any_of(body.begin(), body.end(), [&](const std::unique_ptr<Statement>& statement) {
    const auto any = [&](const ExpressionPointer& part) { return uses(part.get(), name); };
    if (std::any_of(statement->expressions.begin(), statement->expressions.end(), any)) return true;
    if (std::any_of(statement->bodies.begin(), statement->bodies.end(),
                    [&](const Body& inner) { return body_uses(inner, name); })) {
      return true;
    }
    return statement->macro && body_uses(statement->macro->body, name);
  });
}

}  // namespace viaduct::jinja
