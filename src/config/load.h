#pragma once
// Reads a YAML file and overrides into the structs behind a schema, and writes them back as YAML.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/problems.h"
#include "config/schema.h"

namespace viaduct {

/// The user's input: a YAML file (empty: none) and `section.field=value` overrides; later ones win.
struct ConfigInput {
  std::filesystem::path file;
  std::vector<std::string> overrides;
};

/// Results other than the values themselves.
struct ConfigOutcome {
  std::map<std::string, Value> given;  // the user's settings, by canonical name
  std::vector<std::string> notes;      // settings without effect on the device

  bool is_given(const std::string& name) const { return given.count(name) > 0; }
};

/// Reads the input into the members behind `schema`. Every problem (unreadable file, unknown name
/// with the nearest known one, wrong type, out of range, a name given twice) is added to
/// `problems`; nothing is thrown for them.
ConfigOutcome read_config(const Schema& schema, const ConfigInput& input, Problems& problems);

/// Whether a value is one that turns a setting off: null, false, 0, or nothing at all.
bool asks_nothing(const Value& value);

/// Refuses planned knobs that were set to anything but their default, and notes those that have no
/// effect on `device`: planned ones too whose default asks for something.
void check_states(const Schema& schema, DeviceKind device, ConfigOutcome& outcome,
                  Problems& problems);

/// All bound fields, section by section, as YAML that `read_config` reads back to the same values.
std::string to_yaml(const Schema& schema);

}  // namespace viaduct
