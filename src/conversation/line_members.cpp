#include "conversation/line_members.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

}  // namespace

const TemplateValue* member(const TemplateMap& line, std::string_view name) {
  const TemplateValue* found = line.find(name);
  return found == nullptr || found->is_none() ? nullptr : found;
}

const std::string& text_member(const TemplateMap& line, std::string_view name) {
  const TemplateValue* found = member(line, name);
  if (found == nullptr) invalid_line(Problem::wrong_member, "'{}' is missing", name);
  if (!found->is_text())
    invalid_line(Problem::wrong_member, "'{}' is {}, expected a text", name, type_name(*found));
  return found->as_text();
}

std::string optional_text(const TemplateMap& line, std::string_view name) {
  return member(line, name) == nullptr ? std::string() : text_member(line, name);
}

const std::vector<TemplateValue>& list_member(const TemplateMap& line, std::string_view name) {
  const TemplateValue* found = member(line, name);
  if (found == nullptr) invalid_line(Problem::wrong_member, "'{}' is missing", name);
  if (!found->is_list())
    invalid_line(Problem::wrong_member, "'{}' is {}, expected a list", name, type_name(*found));
  return found->as_list().items;
}

}  // namespace viaduct
