#include "template/interpreter.h"

#include <algorithm>

#include "base/nearest.h"
#include "template/filters.h"
#include "template/lexer.h"

namespace viaduct::jinja {
namespace {

/// Of all texts and values in a variable, which is a tree.
int64_t given_bytes(const TemplateValue& value) {
  int64_t bytes = sizeof(TemplateValue);
  if (value.is_text()) bytes += std::ssize(value.as_text());
  if (value.is_list()) {
    for (const TemplateValue& item : value.as_list().items) bytes += given_bytes(item);
  }
  if (value.is_map()) {
    for (const auto& [key, item] : value.as_map().entries())
      bytes += given_bytes(key) + given_bytes(item);
  }
  return bytes;
}

}  // namespace

Interpreter::~Interpreter() {
  // Macros refer to the scopes that hold them, and namespaces may hold each other.
  for (const auto& space : namespaces) space->members = {};
  for (const ScopePointer& scope : captured_scopes_) scope->values.clear();
}

int Interpreter::number_of(std::string_view name) const {
  const auto found = std::find(tree_.names.begin(), tree_.names.end(), name);
  return found == tree_.names.end() ? -1 : static_cast<int>(found - tree_.names.begin());
}

ScopePointer Interpreter::begin(const TemplateVariables& variables) {
  clock = variables.clock;
  auto root = std::make_shared<Scope>(nullptr);
  int64_t bytes = 0;
  for (const auto& [name, value] : variables.values) {
    const int number = number_of(name);
    if (number < 0) continue;
    root->set(number, value);
    bytes += given_bytes(value);
  }
  budget.give(bytes);
  return root;
}

RenderedTemplate Interpreter::render(const TemplateVariables& variables) {
  const ScopePointer root = begin(variables);
  output_ = &rendered_.text;
  try {
    execute(tree_.body, root);
  } catch (const TemplateFault& fault) {
    fail_at(where_, place_, fault.what());
  }
  return std::move(rendered_);
}

TemplateValue Interpreter::call(const TemplateValue& function, TemplateArguments& arguments) {
  check_defined(function);
  if (function.is_object()) {
    const TemplateValue::Object held = function.as_object();
    if (auto* callable = dynamic_cast<TemplateCallable*>(held.get()))
      return callable->call(arguments);
    if (auto* loop = dynamic_cast<TemplateLoop*>(held.get())) {
      if (!loop->recurse) {
        template_fault("the loop is called, but it has not the word \"recursive\"");
      }
      return loop->recurse(arguments);
    }
  }
  template_fault("a value of type '{}' cannot be called", type_name(function));
}

TemplateValue Interpreter::filter(const std::string& name, const TemplateValue& value,
                                  TemplateArguments& arguments) {
  budget.step();
  const Filter found = find_filter(name);
  if (found != nullptr) return found(*this, value, arguments);
  if (is_missing_filter(name)) template_fault("the filter \"{}\" is not built in Viaduct", name);
  std::vector<std::string> known;
  for (const FilterTable* table :
       {&text_filters(), &sequence_filters(), &number_filters(), &selecting_filters()}) {
    for (const auto& entry : *table) known.emplace_back(entry.first);
  }
  std::sort(known.begin(), known.end());
  const auto near = nearest_name(name, known);
  template_fault("no filter is named \"{}\"{}", name,
                 near ? fmt::format("; did you mean \"{}\"?", *near) : "");
}

bool Interpreter::test(const std::string& name, const TemplateValue& value,
                       TemplateArguments& arguments) {
  budget.step();
  const Test found = find_test(name);
  if (found == nullptr) template_fault("no test is named \"{}\"", name);
  return found(*this, value, arguments);
}

}  // namespace viaduct::jinja
