// viaduct knobs: every setting, built or planned, and all spellings of the guides.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/describe.h"
#include "config/value_json.h"
#include "run/run_config.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

// The order of keys is the order of the documentation.
using Json = nlohmann::ordered_json;

struct Options {
  std::string name;
  bool json = false, markdown = false;
};

Json describe_field(const Field& field) {
  Json knob{{"name", field.environment ? field.name : field.full_name()},
            {"kind", field.environment ? "environment variable" : "field"},
            {"section", field.section},
            {"field", field.name},
            {"aliases", field.aliases},
            {"type", field.type},
            {"default", to_json(field.default_value)},
            {"unit", field.unit},
            {"allowed", field.allowed_text()},
            {"doc", field.doc},
            {"constraints", field.constraints}};
  for (const KnobDevice device : kKnobDevices) {
    knob["state"][to_string(device)] = to_string(field.state_on(device));
  }
  knob["planned_values"] = field.planned_choices;
  knob["reason"] = field.reason;
  return knob;
}

/// The fields that a name refers to: all (no name), those of a section, or one in any spelling.
std::vector<const Field*> choose(const Schema& schema, const std::string& name) {
  if (!name.empty()) {
    const auto named = schema.find_all(name);
    if (!named.empty()) return named;
  }
  const std::string section = name.empty() ? "" : schema.section_of(name);
  if (!name.empty() && section.empty()) {
    const auto near = schema.suggest(name);
    fail<ConfigError>("unknown knob '{}'{}", name,
                      near ? ", did you mean '" + *near + "'?" : "; viaduct knobs lists all");
  }
  std::vector<const Field*> fields;
  for (const std::string& known : schema.sections()) {
    for (const FieldGroup& group : schema.groups()) {
      if (group.section() != known || (!section.empty() && known != section)) continue;
      for (const Field& field : group.fields()) fields.push_back(&field);
    }
  }
  return fields;
}

void print_table(const std::vector<const Field*>& fields) {
  for (const Field* field : fields) {
    fmt::print("{:<58} {:<24} {:<22} {}\n", field->environment ? field->name : field->full_name(),
               field->type, to_flow_yaml(field->default_value), state_text(*field));
  }
}

int run(const Options& options) {
  RunConfig config;
  const Schema schema = run_schema(config);
  if (options.markdown) {
    fmt::print("{}", configuration_markdown(schema));
    return 0;
  }
  const auto fields = choose(schema, options.name);
  if (options.json) {
    Json knobs = Json::array();
    for (const Field* field : fields) knobs.push_back(describe_field(*field));
    fmt::print("{}\n", Json{{"knobs", knobs}}.dump(2));
  } else if (options.name.empty() || !schema.section_of(options.name).empty()) {
    print_table(fields);
  } else {
    for (const Field* field : fields) fmt::print("{}", describe(*field));
  }
  return 0;
}

}  // namespace

Subcommand add_knobs(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "knobs", "Every setting: type, default, meaning, state of implementation");
  auto options = std::make_shared<Options>();
  app->add_option("NAME", options->name,
                  "A field, a section, an environment variable, or a guide's spelling of one");
  app->add_flag("--json", options->json, "One JSON document");
  app->add_flag("--markdown", options->markdown, "The page docs/configuration.md");
  app->footer("Example: viaduct knobs recipe.trainer.strategy.ddp.bucket_size");
  return {app, [options] { return run(*options); }};
}

}  // namespace viaduct::cli
