// Statements.

#include "base/units.h"
#include "template/interpreter.h"
#include "template/operators.h"
#include "template/printing.h"

namespace viaduct::jinja {

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePointer& scope) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement, scope);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const ScopePointer& scope) {
  if (statement.kind == StatementKind::text) {
    write(statement.text);
    return Flow::normal;
  }
  const TemplateBudget::Level level(budget);
  budget.step();
  place_ = statement.place;
  switch (statement.kind) {
    case StatementKind::output:
      execute_output(statement, scope);
      break;
    case StatementKind::loop:
      return execute_loop(statement, scope);
    case StatementKind::condition:
      return execute_condition(statement, scope);
    case StatementKind::macro:
      scope->set(statement.macro->name_number, make_macro(statement.macro, scope));
      break;
    case StatementKind::call_block:
      execute_call_block(statement, scope);
      break;
    case StatementKind::filter_block: {
      std::string text = captured(statement.bodies[0], std::make_shared<Scope>(scope));
      const TemplateValue before = std::exchange(block_text_, TemplateValue(std::move(text)));
      const TemplateValue value = evaluate(*statement.expressions[0], scope);
      block_text_ = before;
      write(to_text(*this, value));
      break;
    }
    case StatementKind::set: {
      const Target& target = statement.targets[0];
      const bool renames = watch_ != nullptr && !target.is_tuple && target.attribute.empty();
      const TemplateValue value = renames ? evaluate_quietly(*statement.expressions[0], scope)
                                          : evaluate(*statement.expressions[0], scope);
      place_ = statement.place;
      assign(target, value, *scope);
      break;
    }
    case StatementKind::set_block:
      execute_set_block(statement, scope);
      break;
    case StatementKind::with:
      return execute_with(statement, scope);
    case StatementKind::block:
      return execute(statement.bodies[0], std::make_shared<Scope>(scope));
    case StatementKind::generation:
      execute_generation(statement, scope);
      break;
    case StatementKind::loop_break:
      return Flow::broken;
    case StatementKind::loop_continue:
      return Flow::continued;
    default:
      template_fault("\"{}\" needs another template, and there is nowhere to load one from",
                     statement.text);
  }
  return Flow::normal;
}

void Interpreter::write(std::string_view text) {
  budget.check_text(output_->size() + text.size());
  budget.make(text.size());
  output_->append(text);
}

std::string Interpreter::captured(const Body& body, const ScopePointer& scope) {
  std::string text;
  std::string* const before = std::exchange(output_, &text);
  execute(body, scope);
  output_ = before;
  return text;
}

void Interpreter::execute_output(const Statement& statement, const ScopePointer& scope) {
  for (const ExpressionPointer& expression : statement.expressions) {
    const TemplateValue value = evaluate(*expression, scope);
    place_ = statement.place;
    if (value.is_text()) {
      write(value.as_text());
    } else {
      write(to_text(*this, value));
    }
  }
}

Interpreter::Flow Interpreter::execute_condition(const Statement& statement,
                                                 const ScopePointer& scope) {
  size_t branch = 0;
  while (branch < statement.expressions.size() &&
         !is_true(evaluate(*statement.expressions[branch], scope))) {
    ++branch;
  }
  return branch < statement.bodies.size() ? execute(statement.bodies[branch], scope) : Flow::normal;
}

void Interpreter::execute_set_block(const Statement& statement, const ScopePointer& scope) {
  TemplateValue value(captured(statement.bodies[0], std::make_shared<Scope>(scope)));
  if (statement.expressions[0]) {
    const TemplateValue before = std::exchange(block_text_, value);
    value = evaluate(*statement.expressions[0], scope);
    block_text_ = before;
  }
  place_ = statement.place;
  assign(statement.targets[0], value, *scope);
}

void Interpreter::execute_call_block(const Statement& statement, const ScopePointer& scope) {
  const TemplateValue caller = make_macro(statement.macro, scope);
  const TemplateValue value = evaluate_call(*statement.expressions[0], scope, &caller);
  write(to_text(*this, value));
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement, const ScopePointer& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    // Values are those of outside, whatever was assigned before them.
    assign(statement.targets[i], evaluate(*statement.expressions[i], scope), *inner);
  }
  return execute(statement.bodies[0], inner);
}

void Interpreter::execute_generation(const Statement& statement, const ScopePointer& scope) {
  const std::string text = captured(statement.bodies[0], std::make_shared<Scope>(scope));
  const size_t begin = rendered_.text.size();
  rendered_.generations.emplace_back(begin, begin + text.size());
  write(text);
}

void Interpreter::assign(const Target& target, const TemplateValue& value, Scope& scope) {
  if (target.is_tuple) {
    const std::vector<TemplateValue> items = iterate(*this, value);
    if (items.size() != target.parts.size()) {
      template_fault("expected {} to assign, found {}", counted(std::ssize(target.parts), "value"),
                     items.size());
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    if (watch_ != nullptr && !forked &&
        (target.text == "messages" || target.text == kAddGenerationPrompt)) {
      watch_->look_ahead();
    }
    scope.set(target.name, value);
    return;
  }
  const TemplateValue* found = scope.find(target.name);
  auto* space = found != nullptr && found->is_object()
                    ? dynamic_cast<TemplateNamespace*>(found->as_object().get())
                    : nullptr;
  if (space == nullptr) {
    template_fault("only members of a namespace can be assigned to, and '{}' is none", target.text);
  }
  if (target.attribute.starts_with('_')) {
    template_fault("a namespace cannot have the member '{}': it begins with an underscore",
                   target.attribute);
  }
  if (forked) throw PrefixesUnknown{};
  space->members.set(TemplateValue(target.attribute), value);
}

}  // namespace viaduct::jinja
