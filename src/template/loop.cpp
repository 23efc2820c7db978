// Loops.

#include <algorithm>

#include "template/arguments.h"
#include "template/interpreter.h"
#include "template/operators.h"

namespace viaduct::jinja {

Interpreter::Flow Interpreter::execute_loop(const Statement& statement, const ScopePointer& scope) {
  const TemplateValue over = evaluate(*statement.expressions[0], scope);
  place_ = statement.place;
  run_loop(statement, scope, over, 0);
  return Flow::normal;
}

void Interpreter::run_loop(const Statement& statement, const ScopePointer& scope,
                           const TemplateValue& over, int level) {
  std::vector<TemplateValue> items = iterate(*this, over);
  const Expression* condition = statement.expressions[1].get();
  const auto passes = [&](const TemplateValue& item) {
    const auto inner = std::make_shared<Scope>(scope);
    assign(statement.targets[0], item, *inner);
    return is_true(evaluate(*condition, inner));
  };
  std::shared_ptr<TemplateLoop> loop;
  if (statement.reads_loop) {
    if (condition != nullptr) {
      std::vector<TemplateValue> kept;
      for (TemplateValue& item : items) {
        if (passes(item)) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    loop = std::make_shared<TemplateLoop>();
    loop->items = std::move(items);
    loop->level = level;
    loop->depth = std::min(over.depth() + 1, kDeepestValue);
    if (statement.recursive) {
      loop->recurse = [this, &statement, scope, level](TemplateArguments& arguments) {
        const Parameters given("loop", arguments, {"iterable"}, 1);
        const TemplateBudget::Level nested(budget);
        std::string text;
        std::string* const before = std::exchange(output_, &text);
        run_loop(statement, scope, given[0], level + 1);
        output_ = before;
        return TemplateValue(std::move(text));
      };
    }
  }
  const bool watched = watch_ != nullptr && &statement == watched_loop_ && level == 0;
  if (watched) watch_->begin_loop(loop, *watch_->offset(over));
  const size_t count = loop ? loop->items.size() : items.size();
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    const TemplateValue& item = loop ? loop->items[i] : items[i];
    budget.step();
    if (!loop && condition != nullptr && !passes(item)) continue;
    any = true;
    if (watched) watch_->begin_message(static_cast<int64_t>(i));
    const auto inner = std::make_shared<Scope>(scope);
    if (loop) {
      loop->index = i;
      inner->set(statement.loop_name, TemplateValue(std::shared_ptr<TemplateObject>(loop)));
    }
    assign(statement.targets[0], item, *inner);
    const Flow flow = execute(statement.bodies[0], inner);
    if (watched) after_message_(static_cast<int64_t>(i));
    if (flow == Flow::broken) break;
  }
  if (!any) execute(statement.bodies[1], std::make_shared<Scope>(scope));
}

}  // namespace viaduct::jinja
