// Macros, and the bodies of call blocks.

#include <algorithm>

#include "template/interpreter.h"

namespace viaduct::jinja {

TemplateValue Interpreter::make_macro(const std::shared_ptr<MacroTree>& macro,
                                      const ScopePointer& scope) {
  budget.make(256);
  if (!scope->captured) {
    scope->captured = true;
    captured_scopes_.push_back(scope);
  }
  auto callable = std::make_shared<TemplateCallable>(
      macro->name, [this, macro, scope](TemplateArguments& arguments) {
        return call_macro(*macro, scope, arguments);
      });
  callable->is_macro = true;
  return TemplateValue(std::shared_ptr<TemplateObject>(std::move(callable)));
}

TemplateValue Interpreter::call_macro(const MacroTree& macro, const ScopePointer& scope,
                                      TemplateArguments& arguments) {
  const TemplateBudget::Level level(budget);
  const Place called_at = place_;
  const auto inner = std::make_shared<Scope>(scope);
  const auto take_named = [&](std::string_view name) -> std::optional<TemplateValue> {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (found == arguments.named.end()) return std::nullopt;
    TemplateValue value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  bool found_caller = false;
  std::vector<const Parameter*> missing;
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    found_caller = found_caller || parameter.text == "caller";
    if (i < arguments.positional.size()) {
      inner->set(parameter.name, arguments.positional[i]);
    } else if (auto value = take_named(parameter.text)) {
      inner->set(parameter.name, *std::move(value));
    } else if (parameter.standard) {
      missing.push_back(&parameter);
    } else {
      inner->set(parameter.name, TemplateValue::undefined(fmt::format(
                                     "the parameter '{}' was not given", parameter.text)));
    }
  }
  if (macro.uses_caller && !found_caller) {
    const auto caller = take_named("caller");
    inner->set(number_of("caller"),
               caller && !caller->is_none()
                   ? *caller
                   : TemplateValue::undefined("the macro was not called by {% call %}"));
  }
  const size_t expected = macro.parameters.size();
  if (macro.uses_kwargs) {
    TemplateMap rest;
    for (auto& [name, value] : arguments.named) rest.set(TemplateValue(name), std::move(value));
    inner->set(number_of("kwargs"), TemplateValue::map(std::move(rest)));
  } else if (!arguments.named.empty()) {
    template_fault("the macro '{}' has no parameter '{}'", macro.name, arguments.named[0].first);
  }
  const bool too_many = arguments.positional.size() > expected;
  if (macro.uses_varargs) {
    std::vector<TemplateValue> rest;
    if (too_many) {
      rest.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(expected),
                  arguments.positional.end());
    }
    inner->set(number_of("varargs"), TemplateValue::list(std::move(rest), ListForm::tuple));
  } else if (too_many) {
    template_fault("the macro '{}' takes at most {} arguments, found {}", macro.name, expected,
                   arguments.positional.size());
  }
  for (const Parameter* parameter : missing) {
    inner->set(parameter->name, evaluate(*parameter->standard, inner));
  }
  std::string text = captured(macro.body, inner);
  place_ = called_at;
  return TemplateValue(std::move(text));
}

}  // namespace viaduct::jinja
