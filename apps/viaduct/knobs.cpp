// viaduct knobs: every setting, built or planned, and all spellings of the guides.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "config/describe.h"
#include "config/foreign_words.h"
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
  for (const DeviceKind device : kDeviceKinds) {
    knob["state"][std::string(choice_name(device))] = to_string(field.state_on(device));
  }
  knob["planned_values"] = field.planned_choices;
  knob["reason"] = field.reason;
  return knob;
}

/// What a name refers to.
struct Choice {
  std::vector<const Field*> fields;
  bool in_full = false;               // one field, in any spelling
  const ForeignWord* word = nullptr;  // Hugging Face's, which led to it
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The fields in whose names `part` is; if there are none, those in whose text it is.
std::vector<const Field*> find_parts(const Schema& schema, const std::string& part) {
  const auto find = [&](auto&& matches) {
    std::vector<const Field*> found;
    for (const FieldGroup& group : schema.groups()) {
      for (const Field& field : group.fields()) {
        if (matches(field)) found.push_back(&field);
      }
    }
    return found;
  };
  const std::string wanted = search_form(part);
  constexpr size_t kShortest = 2;
  if (wanted.size() < kShortest) return {};
  auto found = find([&](const Field& field) {
    return contains(search_form(field.full_name()), wanted) ||
           std::ranges::any_of(field.aliases, [&](const std::string& alias) {
             return contains(search_form(alias), wanted);
           });
  });
  if (!found.empty()) return found;
  return find([&](const Field& field) { return contains(search_form(field.doc), wanted); });
}

/// All fields (no name), those of a section, one in any spelling or by Hugging Face's word for it,
/// or all with the name as a part of theirs.
Choice choose(const Schema& schema, const std::string& name) {
  if (!name.empty()) {
    auto named = schema.find_all(name);
    if (!named.empty()) return {std::move(named), true};
  }
  const std::string section = name.empty() ? "" : schema.section_of(name);
  if (!name.empty() && section.empty()) {
    if (const ForeignWord* word = find_foreign_word(name)) {
      if (const Field* field = schema.find(word->field)) return {{field}, true, word};
    }
    if (auto parts = find_parts(schema, name); !parts.empty()) return {std::move(parts)};
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
  return {std::move(fields)};
}

void print_table(const std::vector<const Field*>& fields) {
  for (const Field* field : fields) {
    fmt::print("{:<58} {:<24} {:<22} {}\n", field->environment ? field->name : field->full_name(),
               field->type, to_flow_yaml(field->default_value), state_text(*field));
  }
}

/// Which further fields have the name as a part of theirs: `dropout` is one of several.
void print_others(const Schema& schema, const std::string& part,
                  const std::vector<const Field*>& shown) {
  std::vector<const Field*> parts = find_parts(schema, part);
  std::erase_if(parts, [&](const Field* field) {
    return field->environment || std::ranges::find(shown, field) != shown.end() ||
           !contains(search_form(field->full_name()), search_form(part));
  });
  std::vector<std::string> names;
  constexpr size_t kMost = 8;
  for (const Field* field : parts) {
    if (names.size() < kMost) names.push_back(field->full_name());
  }
  if (names.empty()) return;
  fmt::print("also with this in the name: {}{}\n", fmt::join(names, ", "),
             parts.size() > kMost ? ", …" : "");
}

int run(const Options& options) {
  RunConfig config;
  const Schema schema = run_schema(config);
  if (options.markdown) {
    fmt::print("{}", configuration_markdown(schema));
    return 0;
  }
  const auto [fields, in_full, word] = choose(schema, options.name);
  if (options.json) {
    Json knobs = Json::array();
    for (const Field* field : fields) knobs.push_back(describe_field(*field));
    fmt::print("{}\n", Json{{"knobs", knobs}}.dump(2));
  } else if (in_full) {
    if (word != nullptr) {
      fmt::print("{} (Hugging Face) is {}{}{}\n", word->word, word->field,
                 word->how.empty() ? "" : ": ", word->how);
    }
    for (const Field* field : fields) fmt::print("{}", describe(*field));
    if (word == nullptr) print_others(schema, options.name, fields);
  } else {
    print_table(fields);
  }
  return 0;
}

}  // namespace

Subcommand add_knobs(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "knobs", "Every setting: type, default, meaning, state of implementation");
  auto options = std::make_shared<Options>();
  app->add_option("NAME", options->name,
                  "A field, a section, an environment variable, a guide's spelling or Hugging "
                  "Face's word for one, or a part of a name");
  app->add_flag("--json", options->json, "One JSON document");
  app->add_flag("--markdown", options->markdown, "The page docs/configuration.md");
  app->footer(
      "Example:\n  viaduct knobs recipe.trainer.strategy.ddp.bucket_size\n  viaduct knobs warmup\n "
      " "
      "viaduct knobs per_device_train_batch_size");
  return {app, [options] { return run(*options); }};
}

}  // namespace viaduct::cli
