#include "conversation/line_members.h"

#include "template/large_integer.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

}  // namespace

TemplateValue line_object(std::string_view line) {
  TemplateValue value;
  try {
    value = TemplateValue::from_json(line, "JSON");
  } catch (const LargeInteger& error) {
    invalid_line(Problem::wrong_member, "{}", error.what());
  } catch (const Error& error) {
    invalid_line(Problem::not_json, "{}", error.what());
  }
  if (!value.is_map()) invalid_line(Problem::not_json, "{}, expected an object", type_name(value));
  return value;
}

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
