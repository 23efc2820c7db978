#include "config/load.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "config/override_value.h"

namespace viaduct {
namespace {

// Long values and names are cut in messages: hostile input must not fill the screen.
std::string shorten(std::string text) {
  constexpr size_t kMost = 100;
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

class Reader {
 public:
  Reader(const Schema& schema, Problems& problems) : schema_(schema), problems_(problems) {}

  void read_file(const std::filesystem::path& path) {
    try {
      check_given_path("", path, "a configuration (YAML)");
      const Value root =
          parse_yaml(viaduct::read_file(path, kMaxYamlBytes), path.filename().string());
      if (root.is_null()) return;
      if (!root.is_map()) {
        problems_.add("{}: expected sections (`train:`, `optimizer:` …), found {}",
                      path.filename().string(), shorten(to_flow_yaml(root)));
        return;
      }
      for (const auto& [section, value] : root.entries) read_at(section, value);
    } catch (const IoError& error) {
      problems_.add_text(error.what());
    } catch (const ConfigError& error) {
      for (const auto& problem : error.problems()) problems_.add_text(problem);
    }
  }

  void read_override(const std::string& text) {
    overriding_ = true;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems_.add("override '{}': expected section.field=value", shorten(text));
      return;
    }
    const std::string path = text.substr(0, equals);
    if (path.front() == '.' || path.back() == '.' || path.find("..") != std::string::npos) {
      problems_.add("override '{}': an empty name between dots", shorten(text));
      return;
    }
    try {
      const Field* field = schema_.find(path);
      if (field == nullptr) field = schema_.short_form(path);
      const Value value = value_of_override(field, text.substr(equals + 1),
                                            fmt::format("override '{}'", shorten(text)));
      // The same depth limit as for a file, so that what was read can be printed and read again.
      if (std::count(path.begin(), path.end(), '.') + 1 + depth(value) > kMaxYamlDepth) {
        problems_.add("override '{}': nested deeper than {} levels", shorten(text), kMaxYamlDepth);
        return;
      }
      read_at(path, value);
    } catch (const ConfigError& error) {
      for (const auto& problem : error.problems()) problems_.add_text(problem);
    }
  }

  /// Writes everything that was set into the bound members.
  ConfigOutcome assign_all() {
    ConfigOutcome outcome;
    for (const Field* field : order_) {
      const Setting& setting = settings_.at(field);
      if (!field->assign(setting.value)) {
        problems_.add("{}: {}: expected {}{}, found {}{}", setting.value.source.text(),
                      label(*field, setting), field->type,
                      field->allowed.empty() ? "" : " (" + field->allowed_text() + ")",
                      shorten(to_flow_yaml(setting.value)), list_hint(*field, setting.value));
      } else if (const std::string problem = field->value_problem(setting.value);
                 !problem.empty()) {
        problems_.add("{}: {}: {}", setting.value.source.text(), label(*field, setting), problem);
      } else {
        outcome.given[field->full_name()] = setting.value;
      }
    }
    return outcome;
  }

 private:
  struct Setting {
    Value value;
    std::string spelling;
    bool from_override = false;
  };

  /// Levels of maps and lists; 0 for a scalar.
  static int64_t depth(const Value& value) {
    int64_t below = -1;
    for (const Value& item : value.items) below = std::max(below, depth(item));
    for (const auto& [key, entry] : value.entries) below = std::max(below, depth(entry));
    return value.is_list() || value.is_map() ? std::max<int64_t>(below, 0) + 1 : 0;
  }

  static std::string label(const Field& field, const Setting& setting) {
    if (setting.spelling == field.full_name()) return setting.spelling;
    return fmt::format("{} (given as {})", field.full_name(), shorten(setting.spelling));
  }

  void read_at(const std::string& path, const Value& value) {
    if (const Field* field = schema_.find(path)) {
      set(*field, path, {}, value);
    } else if (const auto inside = schema_.find_inside(path)) {
      set(*inside->field, path, inside->keys, value);
    } else if (const Field* short_form = schema_.short_form(path);
               short_form && value.kind == Value::Kind::scalar) {
      set(*short_form, path, {}, value);
    } else if (schema_.is_prefix(path)) {
      if (value.is_map()) {
        for (const auto& [key, entry] : value.entries) read_at(path + "." + key, entry);
      } else if (!value.is_null()) {
        problems_.add("{}: '{}' is a section: expected its fields, found {}", value.source.text(),
                      shorten(path), shorten(to_flow_yaml(value)));
      }
    } else {
      report_unknown(path, value);
    }
  }

  void report_unknown(const std::string& path, const Value& value) {
    // A search over all names for each key of a hostile file would be slow; users make fewer
    // mistakes.
    constexpr int kMostSearches = 50;
    const auto near = ++searches_ <= kMostSearches ? schema_.suggest(path) : std::nullopt;
    const char* kind = path.find('.') == std::string::npos ? "section" : "field";
    problems_.add("{}: unknown {} '{}'{}", value.source.text(), kind, shorten(path),
                  near ? fmt::format(", did you mean '{}'?", *near) : "");
  }

  void set(const Field& field, const std::string& spelling, const std::vector<std::string>& keys,
           const Value& value) {
    const auto found = settings_.find(&field);
    if (found == settings_.end()) order_.push_back(&field);
    if (found != settings_.end() && !overriding_) {
      problems_.add("{}: {} is given twice, as {} and as {}", value.source.text(),
                    field.full_name(), shorten(found->second.spelling), shorten(spelling));
      return;
    }
    // The later of two overrides counts, but one with two names is rather a mistake.
    const bool named = found != settings_.end() && keys.empty() && found->second.from_override &&
                       found->second.spelling != spelling && !is_section(spelling) &&
                       !is_section(found->second.spelling);
    if (named && !same_value(found->second.value, field.value_under(spelling, value))) {
      problems_.add("{}: {} is given twice, as {} and as {}", value.source.text(),
                    field.full_name(), shorten(found->second.spelling), shorten(spelling));
      return;
    }
    if (keys.empty()) {
      settings_[&field] = {field.value_under(spelling, value), spelling, overriding_};
      return;
    }
    if (field.type.find("map") == std::string::npos) {
      problems_.add("{}: unknown field '{}': {} is of type {} and has no fields of its own",
                    value.source.text(), shorten(spelling), field.full_name(), field.type);
      if (found == settings_.end()) order_.pop_back();
      return;
    }
    Setting& setting = settings_[&field];
    if (found == settings_.end()) setting.value = field.default_value;
    setting.spelling = spelling.substr(0, spelling.size() - joined_size(keys));
    if (!setting.value.is_map() && !setting.value.is_null()) {
      problems_.add("{}: {} is {} and has no field '{}'", value.source.text(), field.full_name(),
                    shorten(to_flow_yaml(setting.value)), shorten(keys.front()));
      return;
    }
    Value* at = &setting.value;
    for (const std::string& key : keys) {
      if (!at->is_map()) *at = Value{};
      if (!at->find(key)) at->set(key, Value{});
      at = const_cast<Value*>(at->find(key));
    }
    *at = value;
    setting.value.source = value.source;
  }

  /// Whether a field was named by its section alone (Schema::short_form).
  static bool is_section(const std::string& spelling) {
    return spelling.find('.') == std::string::npos;
  }

  /// A list of one is often meant by what it has.
  static std::string list_hint(const Field& field, const Value& value) {
    const bool fits = value.kind == Value::Kind::scalar &&
                      field.type.find("list") != std::string::npos &&
                      field.assign(Value::of_list({value}));
    return fits ? fmt::format(", did you mean [{}]?", shorten(to_flow_yaml(value))) : "";
  }

  static size_t joined_size(const std::vector<std::string>& keys) {
    size_t size = 0;
    for (const std::string& key : keys) size += key.size() + 1;
    return size;
  }

  const Schema& schema_;
  Problems& problems_;
  std::map<const Field*, Setting> settings_;
  std::vector<const Field*> order_;
  bool overriding_ = false;
  int searches_ = 0;
};

bool is_harmless(const Field& field, const Value& value) {
  return std::any_of(field.harmless.begin(), field.harmless.end(),
                     [&](const std::string& text) { return value.is_plain(text); });
}

}  // namespace

ConfigOutcome read_config(const Schema& schema, const ConfigInput& input, Problems& problems) {
  Reader reader(schema, problems);
  if (!input.file.empty()) reader.read_file(input.file);
  for (const std::string& text : input.overrides) reader.read_override(text);
  return reader.assign_all();
}

bool asks_nothing(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return true;
    case Value::Kind::list:
      return value.items.empty();
    case Value::Kind::map:
      return value.entries.empty();
    case Value::Kind::scalar:
      return value.scalar.empty() || same_value(value, Value::of_scalar("0")) ||
             same_value(value, Value::of_scalar("false"));
  }
  return false;
}

void check_states(const Schema& schema, DeviceKind device, ConfigOutcome& outcome,
                  Problems& problems) {
  for (const auto& [name, value] : outcome.given) {
    const Field& field = *schema.find(name);
    const KnobState state = field.state_on(device);
    const bool default_or_harmless =
        same_value(value, field.default_value) || is_harmless(field, value);
    const bool planned_choice =
        std::find(field.planned_choices.begin(), field.planned_choices.end(), value.scalar) !=
        field.planned_choices.end();
    if (planned_choice || (state == KnobState::planned && !default_or_harmless)) {
      const bool elsewhere = std::ranges::any_of(
          kDeviceKinds, [&](DeviceKind one) { return field.state_on(one) != KnobState::planned; });
      problems.add("{}: {}={} is not implemented yet{}{}{} (its default is {})",
                   value.source.text(), name, shorten(to_flow_yaml(value)),
                   elsewhere && !planned_choice ? " on " + std::string(choice_name(device)) : "",
                   field.reason.empty() ? "" : ": ", field.reason,
                   to_flow_yaml(field.default_value));
    } else if (state == KnobState::planned && !asks_nothing(field.default_value) &&
               !is_harmless(field, value)) {
      // Its default is what would be done, which nothing does.
      outcome.notes.push_back(fmt::format("{} has no effect: it is not implemented yet{}{}", name,
                                          field.reason.empty() ? "" : ": ", field.reason));
    } else if (state == KnobState::not_applicable) {
      outcome.notes.push_back(fmt::format("{} has no effect on {}{}{}", name, choice_name(device),
                                          field.reason.empty() ? "" : ": ", field.reason));
    }
  }
}

std::string to_yaml(const Schema& schema) {
  std::string out;
  for (const std::string& section : schema.sections()) {
    std::string lines;
    for (const FieldGroup& group : schema.groups()) {
      if (group.section() != section) continue;
      for (const Field& field : group.fields()) {
        if (field.current)
          lines += fmt::format("  {}: {}\n", field.name, to_flow_yaml(field.current()));
      }
    }
    if (!lines.empty()) out += section + ":\n" + lines;
  }
  return out;
}

}  // namespace viaduct
