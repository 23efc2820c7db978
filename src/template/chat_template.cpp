#include "template/chat_template.h"

#include <algorithm>

#include "template/interpreter.h"
#include "template/parser.h"
#include "template/tree_names.h"

namespace viaduct {
namespace {

bool holds_generation(const jinja::Body& body) {
  return std::any_of(body.begin(), body.end(), [](const auto& statement) {
    return statement->kind == jinja::StatementKind::generation ||
           std::any_of(statement->bodies.begin(), statement->bodies.end(), holds_generation) ||
           (statement->macro && holds_generation(statement->macro->body));
  });
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view text, std::string where) {
  ChatTemplate parsed;
  parsed.where_ = std::move(where);
  parsed.tree_ = std::make_shared<const jinja::Tree>(jinja::parse_template(text, parsed.where_));
  parsed.has_generation_ = holds_generation(parsed.tree_->body);
  return parsed;
}

RenderedTemplate ChatTemplate::render(const TemplateVariables& variables,
                                      const TemplateLimits& limits) const {
  return jinja::Interpreter(*tree_, where_, limits).render(variables);
}

RenderedPrefixes ChatTemplate::render_prefixes(const TemplateVariables& variables,
                                               const TemplateLimits& limits) const {
  try {
    return jinja::Interpreter(*tree_, where_, limits).render_prefixes(variables);
  } catch (const jinja::PrefixesUnknown&) {
    return {render(variables, limits), {}};
  }
}

bool ChatTemplate::reads(std::string_view name) const {
  return jinja::body_uses(tree_->body, name);
}

}  // namespace viaduct
