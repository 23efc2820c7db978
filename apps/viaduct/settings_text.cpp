#include "settings_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "config/schema.h"

namespace viaduct::cli {
namespace {

constexpr size_t kWidth = 100;  // of a line, in characters

bool is_given(const RunSetup& setup, const Field& field) {
  return std::find(setup.given.begin(), setup.given.end(), field.full_name()) != setup.given.end();
}

bool is_off(const Value& value) {
  return value.is_null() || value.is_plain("false") || (value.is_list() && value.items.empty());
}

/// "  head: a, b,\n        c": the items as they fit.
std::string wrapped(const std::string& head, const std::vector<std::string>& items) {
  const std::string indent(head.size() + 4, ' ');
  std::string text = fmt::format("  {}: ", head);
  size_t width = text.size();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "\n");
    if (i > 0 && width + 1 + item.size() > kWidth) {
      text += "\n" + indent;
      width = indent.size();
    } else if (i > 0) {
      text += " ";
      ++width;
    }
    text += item;
    width += item.size();
  }
  return text;
}

/// The fields of a section that hold a value, in order of declaration.
std::vector<const Field*> fields_of(const Schema& schema, const std::string& section) {
  std::vector<const Field*> fields;
  for (const FieldGroup& group : schema.groups()) {
    if (group.section() != section) continue;
    for (const Field& field : group.fields())
      if (field.current) fields.push_back(&field);
  }
  return fields;
}

}  // namespace

std::string given_settings_text(const RunSetup& setup) {
  RunConfig config = setup.config;
  const Schema schema = run_schema(config);
  std::string text;
  for (const std::string& section : schema.sections()) {
    for (const Field* field : fields_of(schema, section)) {
      if (is_given(setup, *field))
        text += fmt::format("  {}: {}\n", field->full_name(), to_flow_yaml(field->current()));
    }
  }
  return text.empty() ? text : "set:\n" + text;
}

std::string found_settings_text(const RunSetup& setup) {
  RunConfig config = setup.config, untouched;
  const Schema schema = run_schema(config), plain = run_schema(untouched);
  std::string text;
  for (const std::string& section : schema.sections()) {
    std::vector<std::string> found;
    for (const Field* field : fields_of(schema, section)) {
      if (is_given(setup, *field) ||
          !plain.find(field->full_name())->default_value.is_plain("auto"))
        continue;
      const Value value = field->current();
      if (is_off(value) || !field->idle_reason().empty()) continue;
      found.push_back(fmt::format("{}={}", field->name, to_flow_yaml(value)));
    }
    if (!found.empty()) text += wrapped(section, found);
  }
  return text.empty() ? text
                      : "found, where the default is auto; without what is off or unused:\n" + text;
}

}  // namespace viaduct::cli
