#include "override_scope.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "config/problems.h"
#include "run/run_config.h"

namespace viaduct::cli {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The canonical name of the field or the section that `path` refers to; "" if it is unknown.
std::string meant(const Schema& schema, const std::string& path) {
  if (const Field* field = schema.find(path)) return field->full_name();
  if (const auto inside = schema.find_inside(path)) return inside->field->full_name();
  if (const Field* field = schema.short_form(path)) return field->full_name();
  return schema.section_of(path);
}

std::string listed(const std::vector<std::string>& names, bool sections) {
  std::string text;
  for (const std::string& name : names) {
    if ((name.find('.') == std::string::npos) == sections)
      text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

void OverrideScope::check(const std::vector<std::string>& overrides) const {
  RunConfig config;
  const Schema schema = run_schema(config);
  Problems problems;
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = meant(schema, text.substr(0, equals));
    if (name.empty() || contains(reads, name) || contains(reads, name.substr(0, name.find('.'))))
      continue;
    const auto reason = reasons.find(name);
    if (reason != reasons.end()) {
      problems.add("override '{}': {} does not read {}: {}", text.substr(0, 100), command, name,
                   reason->second);
      continue;
    }
    problems.add("override '{}': {} does not read {}; {}", text.substr(0, 100), command, name,
                 help());
  }
  problems.throw_if_any();
}

std::string OverrideScope::help() const {
  const std::string sections = listed(reads, true), fields = listed(reads, false);
  return fmt::format("it reads {}{}{}{}{}", sections.empty() ? "" : "the sections ", sections,
                     sections.empty() || fields.empty() ? "" : " and ",
                     fields.empty() ? "" : "the fields ", fields);
}

}  // namespace viaduct::cli
