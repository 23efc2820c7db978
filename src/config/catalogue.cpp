#include "config/catalogue.h"

namespace viaduct {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    if (space != 0) out.emplace_back(text.substr(0, space));
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  }
  return out;
}

void add_row(FieldGroup& group, const KnobTable& table, const KnobRow& row) {
  Value default_value = parse_yaml(row.default_text, "catalogue");
  default_value.source = {};
  Field& field = group.unbound(std::string(row.name), std::string(row.type),
                               std::move(default_value), std::string(row.doc));
  field.constraints = row.constraints;
  field.aliases = words(row.aliases);
  field.allowed = words(row.allowed);
  field.planned(std::string(table.reason));
  field.environment = table.section == "env_vars";
  if (row.reach == KnobReach::nowhere) field.state.fill(KnobState::not_applicable);
}

}  // namespace

namespace {

std::vector<FieldGroup> read_tables() {
  using namespace catalogue_tables;
  std::vector<FieldGroup> groups;
  for (const auto tables : {parallel, experts, memory, kernels, data, operations, environment}) {
    for (const KnobTable& table : tables()) {
      FieldGroup& group = groups.emplace_back(std::string(table.section), std::string(table.doc));
      for (const KnobRow& row : table.rows) add_row(group, table, row);
    }
  }
  return groups;
}

}  // namespace

const std::vector<FieldGroup>& catalogue() {
  // Defaults are texts in YAML, and a search reads thousands of configurations.
  static const std::vector<FieldGroup> groups = read_tables();
  return groups;
}

}  // namespace viaduct
