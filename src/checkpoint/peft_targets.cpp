#include "checkpoint/peft_targets.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

/// Whether the expression matches all of the name; nothing if it cannot be read.
std::optional<bool> matches(const std::string& expression, const std::string& name) {
  try {
    return std::regex_match(name, std::regex(expression));
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

bool ends_with_part(const std::string& name, const std::string& part) {
  return name == part || name.ends_with("." + part);
}

bool is_all_linear(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == "all-linear";
}

/// The number of the layer that a module is in: the one after a name of `patterns`, or after any
/// name that has another before it.
std::optional<int64_t> layer_of(const std::string& module,
                                const std::vector<std::string>& patterns) {
  const auto number = [&](const std::string& before) -> std::optional<int64_t> {
    std::smatch found;
    try {
      if (!std::regex_search(module, found, std::regex("^.*\\." + before + "\\.([0-9]{1,9})\\.")))
        return std::nullopt;
    } catch (const std::regex_error&) {
      return std::nullopt;
    }
    return std::stoll(found[1].str());
  };
  if (patterns.empty()) return number("[^.]*");
  for (const std::string& pattern : patterns)
    if (const auto found = number(pattern)) return found;
  return std::nullopt;
}

/// The texts of a member that is a text, a list of texts, or null.
std::vector<std::string> texts(const Json& value, const char* name, const std::string& where) {
  if (value.is_null()) return {};
  if (value.is_string()) return {value.get<std::string>()};
  const bool list = value.is_array() &&
                    std::ranges::all_of(value, [](const Json& one) { return one.is_string(); });
  VIADUCT_CHECK(IoError, list, "{}: {}: expected a text or a list of texts", where, name);
  return value.get<std::vector<std::string>>();
}

PeftTargets::Names names(const Json& config, const char* name, const std::string& where) {
  PeftTargets::Names names;
  const auto found = config.find(name);
  if (found == config.end()) return names;
  if (found->is_string()) {
    names.expression = found->get<std::string>();
  } else {
    names.parts = texts(*found, name, where);
  }
  return names;
}

std::vector<int64_t> numbers(const Json& value, const char* name, const std::string& where) {
  if (value.is_null()) return {};
  if (value.is_number_integer()) return {value.get<int64_t>()};
  const bool list = value.is_array() && std::ranges::all_of(value, [](const Json& one) {
                      return one.is_number_integer();
                    });
  VIADUCT_CHECK(IoError, list, "{}: {}: expected a whole number or a list of them", where, name);
  return value.get<std::vector<int64_t>>();
}

}  // namespace

std::string PeftTargets::left_out_by(const std::string& module) const {
  const auto among = [&](const Names& names) {
    return std::ranges::any_of(
        names.parts, [&](const std::string& part) { return ends_with_part(module, part); });
  };
  const bool out =
      excluded.expression ? matches(*excluded.expression, module).value_or(false) : among(excluded);
  if (out) return "exclude_modules";
  if (modules.expression) {
    const bool in =
        is_all_linear(*modules.expression) || matches(*modules.expression, module).value_or(true);
    return in ? "" : "target_modules";
  }
  if (!modules.any()) return "";  // PEFT's own list for the architecture
  if (parameters && module.find(".experts") != std::string::npos) return "";
  if (!among(modules)) return "target_modules";
  // PEFT takes a whole name as it stands.
  if (layers.empty() || std::ranges::find(modules.parts, module) != modules.parts.end()) return "";
  const auto layer = layer_of(module, layers_patterns);
  const bool in = layer && std::ranges::find(layers, *layer) != layers.end();
  return in ? "" : "layers_to_transform";
}

PeftTargets read_peft_targets(const std::string& text, const std::string& where) {
  const Json config = parse_json<Json>(text, where);
  PeftTargets targets;
  targets.modules = names(config, "target_modules", where);
  targets.excluded = names(config, "exclude_modules", where);
  const auto member = [&](const char* name) { return config.value(name, Json()); };
  targets.layers = numbers(member("layers_to_transform"), "layers_to_transform", where);
  targets.layers_patterns = texts(member("layers_pattern"), "layers_pattern", where);
  const Json parameters = member("target_parameters");
  targets.parameters = parameters.is_array() && !parameters.empty();
  return targets;
}

}  // namespace viaduct
