#include "checkpoint/peft_targets.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

bool ends_with_part(const std::string& name, const std::string& part) {
  return name == part || name.ends_with("." + part);
}

bool is_all_linear(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == "all-linear";
}

/// The number of the layer that a module is in, by the first pattern that says it.
std::optional<int64_t> layer_of(const std::string& module,
                                const std::vector<NamePattern>& patterns) {
  for (const NamePattern& pattern : patterns)
    if (const auto number = pattern.last_group(module)) return std::stoll(*number);
  return std::nullopt;
}

/// Of names before a layer's number; none: any that has another before it.
std::vector<NamePattern> layer_numbers(std::vector<std::string> names) {
  if (names.empty()) names = {"[^.]*"};
  std::vector<NamePattern> patterns;
  for (const std::string& name : names) {
    if (auto pattern =
            NamePattern::read(".*\\." + name + "\\.([0-9]{1,9})\\..*", NamePattern::Of::whole))
      patterns.push_back(*std::move(pattern));
  }
  return patterns;
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
    names.expressed = true;
    const auto text = found->get<std::string>();
    names.all_linear = is_all_linear(text);
    if (!names.all_linear) names.expression = NamePattern::read(text, NamePattern::Of::whole);
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
  const bool out = excluded.expression ? excluded.expression->matches(module) : among(excluded);
  if (out) return "exclude_modules";
  if (modules.expressed)
    return !modules.expression || modules.expression->matches(module) ? "" : "target_modules";
  if (!modules.any()) return "";  // PEFT's own list for the architecture
  if (parameters && module.find(".experts") != std::string::npos) return "";
  if (!among(modules)) return "target_modules";
  // PEFT takes a whole name as it stands.
  const bool whole = std::ranges::find(modules.parts, module) != modules.parts.end();
  return whole || in_layers(module) ? "" : "layers_to_transform";
}

bool PeftTargets::in_layers(const std::string& module) const {
  if (layers.empty()) return true;
  const auto layer = layer_of(module, layer_numbers);
  return layer && std::ranges::find(layers, *layer) != layers.end();
}

bool PeftTargets::ask_for(const std::string& module, bool of_kind) const {
  const bool unread = excluded.expressed && !excluded.expression;
  if (unread || !left_out_by(module).empty()) return false;
  if (modules.expressed) return modules.expression || modules.all_linear;
  if (!modules.any()) return of_kind && in_layers(module);
  return !(parameters && module.find(".experts") != std::string::npos);
}

PeftTargets read_peft_targets(const std::string& text, const std::string& where) {
  const Json config = parse_json<Json>(text, where);
  PeftTargets targets;
  targets.modules = names(config, "target_modules", where);
  targets.excluded = names(config, "exclude_modules", where);
  const auto member = [&](const char* name) { return config.value(name, Json()); };
  targets.layers = numbers(member("layers_to_transform"), "layers_to_transform", where);
  targets.layer_numbers = layer_numbers(texts(member("layers_pattern"), "layers_pattern", where));
  const Json parameters = member("target_parameters");
  targets.parameters = parameters.is_array() && !parameters.empty();
  return targets;
}

}  // namespace viaduct
