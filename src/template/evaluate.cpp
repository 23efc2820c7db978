// Expressions.

#include "template/functions.h"
#include "template/interpreter.h"
#include "template/methods.h"
#include "template/operators.h"
#include "template/printing.h"

namespace viaduct::jinja {

TemplateValue Interpreter::evaluate(const Expression& expression, const ScopePointer& scope) {
  if (expression.kind == ExpressionKind::constant) return expression.value;
  const TemplateBudget::Level level(budget);
  budget.step();
  switch (expression.kind) {
    case ExpressionKind::name:
      return evaluate_name(expression, scope);
    case ExpressionKind::list:
    case ExpressionKind::tuple:
    case ExpressionKind::map:
      return evaluate_items(expression, scope);
    case ExpressionKind::attribute:
    case ExpressionKind::item:
    case ExpressionKind::slice:
      return evaluate_access(expression, scope);
    case ExpressionKind::call:
      return evaluate_call(expression, scope, nullptr);
    case ExpressionKind::filter:
    case ExpressionKind::test:
      return evaluate_filter_or_test(expression, scope);
    case ExpressionKind::unary:
      return evaluate_unary(expression, scope);
    case ExpressionKind::binary:
      return evaluate_binary(expression, scope);
    case ExpressionKind::comparison:
      return evaluate_comparison(expression, scope);
    default:
      break;
  }
  if (is_true(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  if (expression.parts[2]) return evaluate(*expression.parts[2], scope);
  return TemplateValue::undefined(
      "the condition of an `if` inside of an expression is false, and there is no `else`");
}

TemplateValue Interpreter::evaluate_name(const Expression& expression, const ScopePointer& scope) {
  if (const TemplateValue* found = scope->find(expression.name)) {
    if (watch_ != nullptr && &expression != quiet_) {
      watch_->use(*found);
      if (!forked && expression.text == kAddGenerationPrompt) watch_->look_ahead();
    }
    return *found;
  }
  if (auto function = global_function(*this, expression.text)) return *std::move(function);
  return TemplateValue::undefined(fmt::format("'{}' is undefined", expression.text));
}

TemplateValue Interpreter::evaluate_items(const Expression& expression, const ScopePointer& scope) {
  if (expression.kind == ExpressionKind::map) {
    TemplateMap map;
    for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
      TemplateValue key = evaluate(*expression.parts[i], scope);
      map.set(std::move(key), evaluate(*expression.parts[i + 1], scope));
    }
    budget.make(map.size() * 2 * sizeof(TemplateValue) + sizeof(TemplateMap));
    return TemplateValue::map(std::move(map));
  }
  std::vector<TemplateValue> items;
  items.reserve(expression.parts.size());
  for (const ExpressionPointer& part : expression.parts) items.push_back(evaluate(*part, scope));
  budget.make((items.size() + 2) * sizeof(TemplateValue));
  return TemplateValue::list(std::move(items), expression.kind == ExpressionKind::tuple
                                                   ? ListForm::tuple
                                                   : ListForm::list);
}

TemplateValue Interpreter::evaluate_access(const Expression& expression,
                                           const ScopePointer& scope) {
  const TemplateValue object = watch_ == nullptr ? evaluate(*expression.parts[0], scope)
                                                 : evaluate_quietly(*expression.parts[0], scope);
  if (expression.kind == ExpressionKind::attribute) {
    place_ = expression.place;
    if (watch_ != nullptr) watch_->use_attribute(object, expression.text);
    return get_attribute(*this, object, expression.text);
  }
  if (expression.kind == ExpressionKind::item) {
    const TemplateValue index = evaluate(*expression.parts[1], scope);
    place_ = expression.place;
    if (watch_ != nullptr) watch_->use_item(object, index);
    return get_item(*this, object, index);
  }
  TemplateValue bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expression.parts[i + 1]) bounds[i] = evaluate(*expression.parts[i + 1], scope);
  }
  place_ = expression.place;
  TemplateValue result = get_slice(*this, object, bounds[0], bounds[1], bounds[2]);
  if (watch_ != nullptr) watch_->use_slice(object, bounds, result);
  return result;
}

TemplateValue Interpreter::evaluate_unary(const Expression& expression, const ScopePointer& scope) {
  const TemplateValue operand = evaluate(*expression.parts[0], scope);
  place_ = expression.place;
  if (expression.operation == Operation::logical_not) return !is_true(operand);
  if (expression.operation == Operation::negative) return negative(operand);
  check_defined(operand);
  if (!operand.is_number()) {
    template_fault("bad operand type for unary +: '{}'", type_name(operand));
  }
  return operand.is_bool() ? TemplateValue(operand.as_integer()) : operand;
}

TemplateValue Interpreter::evaluate_binary(const Expression& expression,
                                           const ScopePointer& scope) {
  if (expression.operation == Operation::concat) {
    std::string text;
    for (const ExpressionPointer& part : expression.parts) {
      append_text(*this, text, evaluate(*part, scope));
      budget.check_text(text.size());
    }
    place_ = expression.place;
    budget.make_text(text.size());
    return TemplateValue(std::move(text));
  }
  TemplateValue left = evaluate(*expression.parts[0], scope);
  if (expression.operation == Operation::logical_and) {
    return is_true(left) ? evaluate(*expression.parts[1], scope) : left;
  }
  if (expression.operation == Operation::logical_or) {
    return is_true(left) ? left : evaluate(*expression.parts[1], scope);
  }
  const TemplateValue right = evaluate(*expression.parts[1], scope);
  place_ = expression.place;
  return arithmetic(*this, expression.operation, left, right);
}

TemplateValue Interpreter::evaluate_comparison(const Expression& expression,
                                               const ScopePointer& scope) {
  TemplateValue left = evaluate(*expression.parts[0], scope);
  for (size_t i = 0; i < expression.operations.size(); ++i) {
    TemplateValue right = evaluate(*expression.parts[i + 1], scope);
    place_ = expression.place;
    if (!compare(*this, expression.operations[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

TemplateArguments Interpreter::evaluate_arguments(const Expression& expression,
                                                  const ScopePointer& scope) {
  TemplateArguments arguments;
  arguments.positional.reserve(expression.parts.size() - 1);
  for (size_t i = 1; i < expression.parts.size(); ++i) {
    arguments.positional.push_back(evaluate(*expression.parts[i], scope));
  }
  if (expression.more_positional) {
    for (TemplateValue& value : iterate(*this, evaluate(*expression.more_positional, scope))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  for (const NamedArgument& argument : expression.named) {
    arguments.named.emplace_back(argument.name, evaluate(*argument.value, scope));
  }
  if (expression.more_named) {
    const TemplateValue more = evaluate(*expression.more_named, scope);
    if (!more.is_map()) template_fault("behind ** stands a map, not '{}'", type_name(more));
    for (const auto& [name, value] : more.as_map().entries()) {
      if (!name.is_text())
        template_fault("names of arguments are texts, not '{}'", type_name(name));
      arguments.named.emplace_back(name.as_text(), value);
    }
  }
  return arguments;
}

TemplateValue Interpreter::evaluate_call(const Expression& expression, const ScopePointer& scope,
                                         const TemplateValue* caller) {
  const Expression& called = *expression.parts[0];
  TemplateValue self, function;
  Method method = nullptr;
  if (called.kind == ExpressionKind::attribute) {
    // Methods of values are called without a function value in between.
    self = evaluate(*called.parts[0], scope);
    place_ = called.place;
    bool changes = false;
    method = called.text.starts_with('_') ? nullptr : find_method(self, called.text, changes);
    if (method == nullptr) function = get_attribute(*this, self, called.text);
  } else {
    function = evaluate(called, scope);
  }
  TemplateArguments arguments = evaluate_arguments(expression, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  place_ = expression.place;
  return method != nullptr ? method(*this, self, arguments) : call(function, arguments);
}

TemplateValue Interpreter::evaluate_filter_or_test(const Expression& expression,
                                                   const ScopePointer& scope) {
  TemplateValue operand = block_text_;
  if (expression.parts[0]) {
    // Whether a name is defined does not depend on its value.
    const bool quiet = watch_ != nullptr && expression.kind == ExpressionKind::test &&
                       (expression.text == "defined" || expression.text == "undefined");
    operand = quiet ? evaluate_quietly(*expression.parts[0], scope)
                    : evaluate(*expression.parts[0], scope);
  }
  TemplateArguments arguments = evaluate_arguments(expression, scope);
  place_ = expression.place;
  if (expression.kind == ExpressionKind::test) return test(expression.text, operand, arguments);
  return filter(expression.text, operand, arguments);
}

}  // namespace viaduct::jinja
