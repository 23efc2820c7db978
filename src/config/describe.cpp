#include "config/describe.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace viaduct {
namespace {

// A cell of a Markdown table: one line, with its bars escaped.
std::string cell(std::string text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

std::string type_text(const Field& field) {
  const std::string allowed = field.allowed_text();
  std::string text = field.type;
  if (!allowed.empty()) text += ": " + allowed;
  if (!field.unit.empty()) text += ", " + field.unit;
  return text;
}

std::string meaning(const Field& field) {
  std::string text = field.doc;
  if (!field.constraints.empty()) text += " Constraints: " + field.constraints + ".";
  if (!field.planned_choices.empty()) {
    text += fmt::format(" Not implemented yet: {}.", fmt::join(field.planned_choices, ", "));
  }
  if (!field.aliases.empty()) {
    std::vector<std::string> names;
    for (const std::string& alias : field.aliases) names.push_back(code(alias));
    text += fmt::format(" Also {}.", fmt::join(names, ", "));
    for (const Field::Switch& one : field.switches) {
      text += fmt::format(" `{}=true` is {}.", one.name, code(one.when_true));
    }
  }
  return text;
}

bool is_built(const Field& field) {
  return field.state_on(DeviceKind::cpu) == KnobState::built;
}

void add_table(std::string& out, const Schema& schema, const std::string& section, bool built) {
  std::string rows;
  for (const FieldGroup& group : schema.groups()) {
    if (group.section() != section) continue;
    for (const Field& field : group.fields()) {
      if (is_built(field) != built) continue;
      rows += fmt::format(
          "| `{}` | {} | {} | {} |\n", field.name, cell(type_text(field)),
          cell(code(to_flow_yaml(field.default_value))),
          cell(meaning(field) +
               (built ? "" : fmt::format(" ({}: {})", state_text(field), field.reason))));
    }
  }
  if (rows.empty()) return;
  if (!built) out += "Known, not implemented yet, or without effect on some device:\n\n";
  out += "| field | type | default | meaning |\n|---|---|---|---|\n" + rows + "\n";
}

constexpr const char* kPreamble = R"(# Configuration

Generated from the typed fields by `viaduct knobs --markdown`; a test compares this page with them.

A run is described by one YAML file with the sections below and by overrides `section.field=value` after it; overrides win.
Values are YAML. An override of a string field takes its text literally, without quotes (`checkpoint.save=run #1`), with three exceptions:
`null` or an empty text is null and `auto` is auto if the field takes them; `[…]` is a list if the field takes lists; a text that is one
whole quoted YAML string, `"…"` or `'…'`, is the string inside. Overrides of other fields are YAML on one line, without comments,
anchors and tags. `mixed_precision=NAME` is short for `mixed_precision.recipe=NAME`. `auto` is replaced by a value before
the run starts; the resolved configuration is printed and stored as `config.yaml`. The names in the guides of
Megatron-Bridge and NeMo (`TransformerConfig.x`, `recipe.trainer.strategy.x`) resolve to the same fields. An unknown name,
a value of the wrong type or range, and a knob that is known but not implemented yet, set to anything but its default, are
errors; all of them are listed at once. A setting without effect on the device, or in this run, is accepted and reported at the start.

)";

}  // namespace

std::string state_text(const Field& field) {
  if (field.state[0] == field.state[1] && field.state[1] == field.state[2])
    return to_string(field.state[0]);
  std::vector<std::string> parts;
  for (const DeviceKind device : kDeviceKinds) {
    parts.push_back(fmt::format("{} {}", choice_name(device), to_string(field.state_on(device))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe(const Field& field) {
  std::string out =
      field.environment ? field.name + " (environment variable)\n" : field.full_name() + "\n";
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<12} {}\n", label, text);
  };
  line("does", field.doc);
  line("type", field.type);
  line("default", to_flow_yaml(field.default_value));
  line("allowed", field.allowed_text());
  line("unit", field.unit);
  line("constraints", field.constraints);
  line("also", fmt::format("{}", fmt::join(field.aliases, ", ")));
  line("state", state_text(field));
  if (!field.planned_choices.empty()) {
    line("planned", fmt::format("{}", fmt::join(field.planned_choices, ", ")));
  }
  line("because", field.reason);
  return out;
}

std::string configuration_markdown(const Schema& schema) {
  std::string out = kPreamble;
  for (const std::string& section : schema.sections()) {
    out += fmt::format("## `{}`\n\n{}\n\n", section, schema.section_doc(section));
    add_table(out, schema, section, true);
    add_table(out, schema, section, false);
  }
  out.pop_back();  // one newline at the end
  return out;
}

}  // namespace viaduct
