#include "checkpoint/peft_settings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "checkpoint/adapter_description.h"
#include "checkpoint/peft_folder.h"
#include "model/adapter_modules.h"
#include "model/adapter_trained.h"
#include "model/family.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

/// Members that need no answer here, whatever they say: they name things, or say which layers have
/// an adapter, which follows from the tensors (peft_targets.h compares them).
const std::set<std::string>& known_members() {
  static const std::set<std::string> names{"auto_mapping",
                                           "base_model_name_or_path",
                                           "inference_mode",
                                           "peft_type",
                                           "peft_version",
                                           "r",
                                           "lora_alpha",
                                           "lora_dropout",
                                           "rank_pattern",
                                           "alpha_pattern",
                                           "revision",
                                           "target_modules",
                                           "target_parameters",
                                           "task_type",
                                           "use_rslora",
                                           "use_dora",
                                           "modules_to_save",
                                           "ensure_weight_tying",
                                           "fan_in_fan_out",
                                           "init_lora_weights",
                                           "bias",
                                           "exclude_modules",
                                           "layers_to_transform",
                                           "layers_pattern",
                                           "megatron_core",
                                           "qalora_group_size",
                                           "runtime_config"};
  return names;
}

/// Whether a member asks for nothing.
bool is_off(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get<std::string>().empty());
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "…" : text;
}

double number(const Json& config, const char* name, double otherwise, const std::string& where) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return otherwise;
  VIADUCT_CHECK(IoError, found->is_number() && std::isfinite(found->get<double>()),
                "{}: {}: expected a number, found {}", where, name, shown(*found));
  return found->get<double>();
}

int64_t rank_number(double value, const std::string& name, const std::string& where) {
  VIADUCT_CHECK(IoError, value >= 1 && value < 1e9 && value == std::floor(value),
                "{}: {}: expected a rank of at least 1, found {}", where, name, value);
  return static_cast<int64_t>(value);
}

std::vector<std::pair<std::string, double>> patterns(const Json& config, const char* name,
                                                     const std::string& where) {
  std::vector<std::pair<std::string, double>> list;
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return list;
  VIADUCT_CHECK(IoError, found->is_object(), "{}: {}: expected an object, found {}", where, name,
                shown(*found));
  for (const auto& [pattern, value] : found->items()) {
    VIADUCT_CHECK(IoError, value.is_number() && value.get<double>() > 0,
                  "{}: {}: {}: expected a positive number, found {}", where, name,
                  shown_name(pattern), shown(value));
    list.emplace_back(pattern, value.get<double>());
  }
  return list;
}

/// A list of names, or null.
std::vector<std::string> names(const Json& config, const char* name, const std::string& where) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return {};
  const bool texts = found->is_array() &&
                     std::ranges::all_of(*found, [](const Json& one) { return one.is_string(); });
  VIADUCT_CHECK(IoError, texts, "{}: {}: expected a list of names, found {}", where, name,
                shown(*found));
  return found->get<std::vector<std::string>>();
}

/// Refuses adapters that are not low-rank terms of a model as it was.
void check_kind(const Json& config, const std::string& where) {
  const std::string type = string_member(config, "peft_type", where);
  VIADUCT_CHECK(ConfigError, !type.empty(), "{}: has no peft_type; expected LORA", where);
  VIADUCT_CHECK(ConfigError, type == "LORA", "{}: peft_type {} is not supported (supported: LORA)",
                where, shown_name(type));
  const std::string bias = string_member(config, "bias", where, "none");
  VIADUCT_CHECK(ConfigError, bias == "none",
                "{}: bias {} is not supported: expected none (biases do not train)", where,
                shown_name(bias));
  if (const auto init = config.find("init_lora_weights");
      init != config.end() && init->is_string()) {
    const std::string name = init->get<std::string>();
    const bool changes_base = name.starts_with("pissa") || name == "olora" || name == "corda" ||
                              name == "loftq" || name == "lora_ga";
    VIADUCT_CHECK(ConfigError, !changes_base,
                  "{}: init_lora_weights {} changed the model's own weights, so the adapter does "
                  "not fit the model; save it with PEFT's path_initial_model_for_weight_conversion",
                  where, shown_name(name));
  }
  for (const auto& [name, value] : config.items()) {
    VIADUCT_CHECK(ConfigError, known_members().contains(name) || is_off(value),
                  "{}: {} = {} is not supported", where, shown_name(name), shown(value));
  }
}

Json plain_number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

AdapterShape PeftSettings::shape_of(const std::string& module, int64_t found,
                                    const std::string& where) const {
  const double* own_rank = pattern_number(ranks, module, where + ": rank_pattern");
  const double* own_alpha = pattern_number(alphas, module, where + ": alpha_pattern");
  const int64_t said = own_rank != nullptr ? rank_number(*own_rank, "rank_pattern", where) : rank;
  VIADUCT_CHECK(IoError, said == found,
                "{}: the adapter of {} has rank {}, but adapter_config.json says {}", where,
                shown_name(module), found, said);
  return {found, own_alpha != nullptr ? *own_alpha : alpha, rank_stabilized};
}

PeftSettings read_peft_settings(const std::string& text, const std::string& where) {
  const Json config = parse_json<Json>(text, where);
  VIADUCT_CHECK(IoError, config.is_object(), "{}: expected an object", where);
  check_kind(config, where);
  PeftSettings settings;
  settings.rank = rank_number(number(config, "r", 8, where), "r", where);
  settings.alpha = number(config, "lora_alpha", 8, where);
  VIADUCT_CHECK(IoError, settings.alpha > 0, "{}: lora_alpha: expected more than 0, found {}",
                where, settings.alpha);
  settings.rank_stabilized = bool_member(config, "use_rslora", where, false);
  settings.dropout = number(config, "lora_dropout", 0, where);
  VIADUCT_CHECK(IoError, settings.dropout >= 0 && settings.dropout < 1,
                "{}: lora_dropout: expected at least 0 and less than 1, found {}", where,
                settings.dropout);
  settings.magnitudes = bool_member(config, "use_dora", where, false);
  settings.saved = names(config, "modules_to_save", where);
  settings.ties_saved = bool_member(config, "ensure_weight_tying", where, false);
  settings.ranks = patterns(config, "rank_pattern", where);
  settings.alphas = patterns(config, "alpha_pattern", where);
  settings.target_parameters = names(config, "target_parameters", where);
  settings.targets = read_peft_targets(text, where);
  return settings;
}

std::string peft_config_text(const AdapterSettings& settings, const ModelConfig& model,
                             const std::string& base,
                             const std::map<std::string, AdapterShape>& parameters) {
  const AdapterDescription said = describe_adapter(settings, model, parameters);
  Json alphas = Json::object();
  for (const auto& [name, alpha] : said.alphas) alphas[name] = plain_number(alpha);
  const bool ties = std::ranges::any_of(
      settings.trained, [&](const std::string& module) { return is_tied_table(model, module); });
  Json config{{"alpha_pattern", alphas},
              {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
              {"bias", "none"},
              {"ensure_weight_tying", ties},
              {"fan_in_fan_out", model_family(model.family).names.transposed},
              {"inference_mode", true},
              {"init_lora_weights", true},
              {"lora_alpha", plain_number(said.alpha)},
              {"lora_dropout", settings.dropout},
              {"modules_to_save", said.trained.empty() ? Json() : Json(said.trained)},
              {"peft_type", "LORA"},
              {"r", said.rank},
              {"rank_pattern", said.ranks},
              {"target_modules", said.targets},
              {"task_type", model.encoder.any() ? "SEQ_2_SEQ_LM" : "CAUSAL_LM"},
              {"use_dora", settings.magnitudes},
              {"use_rslora", said.rank_stabilized}};
  if (!said.parameters.empty()) config["target_parameters"] = said.parameters;
  return config.dump(2) + "\n";
}

}  // namespace viaduct
