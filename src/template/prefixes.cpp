// The texts of the first messages from one rendering of all of them.

#include <utility>

#include "template/interpreter.h"
#include "template/lexer.h"

namespace viaduct::jinja {
namespace {

/// The last value of a variable, nothing without one.
const TemplateValue* variable(const TemplateVariables& variables, std::string_view name) {
  const TemplateValue* found = nullptr;
  for (const auto& [known, value] : variables.values) {
    if (known == name) found = &value;
  }
  return found;
}

}  // namespace

TemplateValue Interpreter::evaluate_quietly(const Expression& expression,
                                            const ScopePointer& scope) {
  const Expression* const before =
      std::exchange(quiet_, expression.kind == ExpressionKind::name ? &expression : nullptr);
  TemplateValue value = evaluate(expression, scope);
  quiet_ = before;
  return value;
}

RenderedPrefixes Interpreter::render_prefixes(const TemplateVariables& variables) {
  RenderedPrefixes result;
  const TemplateValue* messages = variable(variables, "messages");
  if (messages == nullptr || !messages->is_list()) {
    result.whole = render(variables);
    return result;
  }
  PrefixWatch watch(*messages);
  const ScopePointer root = begin(variables);
  output_ = &rendered_.text;
  watch_ = &watch;
  try {
    for (size_t i = 0; i < tree_.body.size(); ++i) {
      const Statement& statement = *tree_.body[i];
      const bool may_be = statement.kind == StatementKind::loop && watched_loop_ == nullptr &&
                          !statement.recursive && statement.expressions[1] == nullptr;
      if (!may_be) {
        if (execute(statement, root) != Flow::normal) break;
        continue;
      }
      const TemplateBudget::Level level(budget);
      budget.step();
      place_ = statement.place;
      const TemplateValue over = evaluate_quietly(*statement.expressions[0], root);
      place_ = statement.place;
      if (watch.offset(over)) {
        run_watched(i, root, over, result);
      } else {
        run_loop(statement, root, over, 0);
      }
    }
  } catch (const TemplateFault& fault) {
    fail_at(where_, place_, fault.what());
  }
  result.whole = std::move(rendered_);
  return result;
}

void Interpreter::run_watched(size_t place, const ScopePointer& root, const TemplateValue& over,
                              RenderedPrefixes& result) {
  const Statement& statement = *tree_.body[place];
  watched_loop_ = &statement;
  rest_ = place + 1;
  const int64_t before = *watch_->offset(over);
  // An empty loop has a branch of its own.
  if (statement.bodies[1].empty()) fork(before, root, result);
  after_message_ = [&](int64_t index) { fork(before + index + 1, root, result); };
  run_loop(statement, root, over, 0);
  after_message_ = nullptr;
}

void Interpreter::fork(int64_t count, const ScopePointer& root, RenderedPrefixes& result) {
  if (!watch_->holds(count)) return;
  const PrefixWatch before = *watch_;
  const size_t generations = rendered_.generations.size();
  RenderedPrefixes::Prefix prefix;
  prefix.shared = rendered_.text.size();
  bool known = true;
  forked = true;
  try {
    prefix.plain = forked_text(count, false, root);
    prefix.prompt = forked_text(count, true, root);
  } catch (const TemplateFault&) {
    known = false;
  }
  forked = false;
  known = known && watch_->holds(count);
  *watch_ = before;
  // What follows the loop looks at all messages: it will again.
  if (!known) watch_->look_ahead();
  rendered_.generations.resize(generations);
  if (known) result.prefixes.emplace(static_cast<size_t>(count), std::move(prefix));
}

std::string Interpreter::forked_text(int64_t count, bool add_generation_prompt,
                                     const ScopePointer& root) {
  // Macros see what is assigned at the top, so it happens there and is undone.
  const auto values = root->values;
  const int prompt = number_of(kAddGenerationPrompt), messages = number_of("messages");
  if (prompt >= 0) root->set(prompt, TemplateValue(add_generation_prompt));
  if (messages >= 0) {
    const auto& items = root->find(messages)->as_list().items;
    root->set(messages, TemplateValue::list({items.begin(), items.begin() + count}));
  }
  const Place place = place_;
  const TemplateValue block = block_text_;
  std::string text;
  std::string* const output = std::exchange(output_, &text);
  const auto restore = [&] {
    root->values = values;
    output_ = output;
    block_text_ = block;
    place_ = place;
    quiet_ = nullptr;
  };
  try {
    for (size_t i = rest_; i < tree_.body.size(); ++i) {
      if (execute(*tree_.body[i], root) != Flow::normal) break;
    }
  } catch (const TemplateFault&) {
    restore();
    throw;
  }
  restore();
  return text;
}

}  // namespace viaduct::jinja
