#pragma once
// Walks the tree of a template and makes its text.

#include <functional>
#include <string>
#include <vector>

#include "template/chat_template.h"
#include "template/prefix_watch.h"
#include "template/runtime.h"
#include "template/scope.h"
#include "template/syntax_tree.h"

namespace viaduct::jinja {

class Interpreter : public Runtime {
 public:
  Interpreter(const Tree& tree, const std::string& where, const TemplateLimits& limits)
      : Runtime(limits), tree_(tree), where_(where) {}
  ~Interpreter() override;
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  RenderedTemplate render(const TemplateVariables& variables);
  /// Throws PrefixesUnknown where the rendering has to be done again without prefixes.
  RenderedPrefixes render_prefixes(const TemplateVariables& variables);

  TemplateValue call(const TemplateValue& function, TemplateArguments& arguments) override;
  TemplateValue filter(const std::string& name, const TemplateValue& value,
                       TemplateArguments& arguments) override;
  bool test(const std::string& name, const TemplateValue& value,
            TemplateArguments& arguments) override;

 private:
  enum class Flow { normal, broken, continued };

  // evaluate.cpp
  TemplateValue evaluate(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_name(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_items(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_access(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_binary(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_unary(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_comparison(const Expression& expression, const ScopePointer& scope);
  TemplateValue evaluate_call(const Expression& expression, const ScopePointer& scope,
                              const TemplateValue* caller);
  TemplateValue evaluate_filter_or_test(const Expression& expression, const ScopePointer& scope);
  /// The arguments of a call, filter or test; `first` is the place of the first one in its parts.
  TemplateArguments evaluate_arguments(const Expression& expression, const ScopePointer& scope);

  // execute.cpp
  Flow execute(const Body& body, const ScopePointer& scope);
  Flow execute(const Statement& statement, const ScopePointer& scope);
  void write(std::string_view text);
  /// The text that a body makes.
  std::string captured(const Body& body, const ScopePointer& scope);
  void execute_output(const Statement& statement, const ScopePointer& scope);
  Flow execute_condition(const Statement& statement, const ScopePointer& scope);
  void execute_set_block(const Statement& statement, const ScopePointer& scope);
  void execute_call_block(const Statement& statement, const ScopePointer& scope);
  Flow execute_with(const Statement& statement, const ScopePointer& scope);
  void execute_generation(const Statement& statement, const ScopePointer& scope);
  void assign(const Target& target, const TemplateValue& value, Scope& scope);
  Flow execute_loop(const Statement& statement, const ScopePointer& scope);
  void run_loop(const Statement& statement, const ScopePointer& scope, const TemplateValue& over,
                int level);

  // prefixes.cpp
  void run_watched(size_t place, const ScopePointer& root, const TemplateValue& over,
                   RenderedPrefixes& result);
  /// Makes the texts that follow the first `count` messages.
  void fork(int64_t count, const ScopePointer& root, RenderedPrefixes& result);
  std::string forked_text(int64_t count, bool add_generation_prompt, const ScopePointer& root);
  /// Evaluates what may be the messages, without noting it as a use.
  TemplateValue evaluate_quietly(const Expression& expression, const ScopePointer& scope);

  // macro.cpp
  TemplateValue make_macro(const std::shared_ptr<MacroTree>& macro, const ScopePointer& scope);
  TemplateValue call_macro(const MacroTree& macro, const ScopePointer& scope,
                           TemplateArguments& arguments);
  int number_of(std::string_view name) const;
  /// The scope of the variables that the tree names.
  ScopePointer begin(const TemplateVariables& variables);

  const Tree& tree_;
  const std::string& where_;
  Place place_;  // of what is being done, for errors
  std::string* output_ = nullptr;
  RenderedTemplate rendered_;
  TemplateValue block_text_;  // what the filters of a block begin with
  std::vector<ScopePointer> captured_scopes_;

  // Of render_prefixes.
  PrefixWatch* watch_ = nullptr;
  const Expression* quiet_ = nullptr;  // a name whose reading is no use
  size_t rest_ = 0;                    // the first statement behind the loop over the messages
  std::function<void(int64_t)> after_message_;
  const Statement* watched_loop_ = nullptr;
};

}  // namespace viaduct::jinja
