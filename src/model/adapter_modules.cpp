#include "model/adapter_modules.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.h"
#include "base/nearest.h"
#include "model/family.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

/// Refuses what has no adapters yet.
void check_model(const ModelConfig& model) {
  const auto refuse = [&](bool has, const char* what) {
    VIADUCT_CHECK(ConfigError, !has,
                  "peft: adapters of models with {} are not built yet (model family {})", what,
                  model.family);
  };
  refuse(model.moe.any(), "experts");
  refuse(model.latent.any(), "latent attention");
  refuse(model.mtp_layers > 0, "multi-token prediction (model.mtp_num_layers=0 leaves it out)");
}

bool matches(const std::string& pattern, const AdaptableModule& module) {
  const auto fits = [&](const std::string& glob) {
    return fnmatch(glob.c_str(), module.name.c_str(), 0) == 0;
  };
  return pattern == "all-linear" || pattern == module.layer || fits(pattern) ||
         fits("*." + pattern);
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

/// The modules that one of the patterns matches, which all match something.
std::vector<bool> matched(const std::vector<std::string>& patterns, const char* field,
                          const std::vector<AdaptableModule>& modules) {
  std::vector<bool> found(modules.size(), false);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < modules.size(); ++i) {
      if (!matches(pattern, modules[i])) continue;
      found[i] = any = true;
    }
    if (any) continue;
    std::vector<std::string> names{"all-linear"};
    const auto add = [&](const std::string& name) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    for (const AdaptableModule& module : modules) add(last_part(module.name));
    for (const AdaptableModule& module : modules) add(std::string(module.layer));
    const auto near = nearest_name(pattern, names);
    fail<ConfigError>("peft.{}: {} matches no linear layer of the model{} (layers: {})", field,
                      pattern, near ? fmt::format("; nearest: {}", *near) : "",
                      fmt::join(names, ", "));
  }
  return found;
}

std::vector<std::pair<std::string, double>> numbers(const Value& map, const char* field,
                                                    bool whole) {
  std::vector<std::pair<std::string, double>> list;
  for (const auto& [pattern, value] : map.entries) {
    double number = 0;
    const bool read = read_value(value, number);
    VIADUCT_CHECK(ConfigError,
                  read && number > 0 && (!whole || (number == std::floor(number) && number < 1e9)),
                  "peft.{}: {}: expected {}, found {}", field, pattern,
                  whole ? "a whole number of at least 1" : "a positive number",
                  to_flow_yaml(value));
    list.emplace_back(pattern, number);
  }
  return list;
}

InitKind init_of(const std::string& name) {
  if (name == "xavier") return InitKind::xavier_normal;
  return name == "normal" ? InitKind::rank_normal : InitKind::kaiming_uniform;
}

}  // namespace

std::vector<AdaptableModule> adaptable_modules(const ModelConfig& model) {
  check_model(model);
  const TensorNames& names = model_family(model.family).names;
  const int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  std::vector<AdaptableModule> modules;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const auto add = [&](const std::string& pattern, std::string_view of, int64_t out, int64_t in) {
      modules.push_back({ParameterMaker::at(pattern, layer), of, out, in});
    };
    if (names.qkv.empty()) {
      add(names.q, "linear_qkv", q, model.hidden);
      add(names.k, "linear_qkv", kv, model.hidden);
      add(names.v, "linear_qkv", kv, model.hidden);
    } else {
      add(names.qkv, "linear_qkv", q + 2 * kv, model.hidden);
    }
    add(names.projection, "linear_proj", model.hidden, q);
    if (model.gated && !names.gate_up.empty()) {
      add(names.gate_up, "linear_fc1", 2 * model.feed_forward, model.hidden);
    } else {
      if (model.gated) add(names.gate, "linear_fc1", model.feed_forward, model.hidden);
      add(names.up, "linear_fc1", model.feed_forward, model.hidden);
    }
    add(names.down, "linear_fc2", model.hidden, model.feed_forward);
  }
  return modules;
}

const AdaptableModule* find_module(const std::vector<AdaptableModule>& modules,
                                   const std::string& name) {
  const auto found = std::ranges::find(modules, name, &AdaptableModule::name);
  return found == modules.end() ? nullptr : &*found;
}

const double* pattern_number(const std::vector<std::pair<std::string, double>>& patterns,
                             const std::string& module, const std::string& where) {
  for (const auto& [pattern, number] : patterns) {
    try {
      if (std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"))) return &number;
    } catch (const std::regex_error&) {
      fail<ConfigError>("{}: {} is not a regular expression", where, pattern);
    }
  }
  return nullptr;
}

AdapterSettings choose_adapters(const PeftConfig& config, const ModelConfig& model) {
  const std::vector<AdaptableModule> modules = adaptable_modules(model);
  VIADUCT_CHECK(ConfigError, !config.target_modules.empty(),
                "peft.target_modules: empty; all-linear adapts every linear layer");
  const std::vector<bool> wanted = matched(config.target_modules, "target_modules", modules);
  const std::vector<bool> left_out = matched(config.exclude_modules, "exclude_modules", modules);
  const auto ranks = numbers(config.rank_pattern, "rank_pattern", true);
  const auto alphas = numbers(config.alpha_pattern, "alpha_pattern", false);
  AdapterSettings settings;
  settings.init = init_of(config.lora_A_init_method);
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!wanted[i] || left_out[i]) continue;
    const AdaptableModule& module = modules[i];
    const double* rank = pattern_number(ranks, module.name, "peft.rank_pattern");
    const double* alpha = pattern_number(alphas, module.name, "peft.alpha_pattern");
    AdapterShape shape;
    shape.rank = rank != nullptr ? static_cast<int64_t>(*rank) : config.dim;
    shape.alpha = alpha != nullptr ? *alpha : config.alpha;
    shape.rank_stabilized = config.rslora;
    const int64_t most = std::min(module.in, module.out);
    VIADUCT_CHECK(ConfigError, shape.rank <= most,
                  "peft.dim: a rank of {} is more than {}, {} × {}, can have; expected 1 to {}",
                  shape.rank, module.name, module.out, module.in, most);
    settings.modules.emplace(module.name, shape);
  }
  VIADUCT_CHECK(ConfigError, settings.any(),
                "peft.exclude_modules: leaves no layer of peft.target_modules");
  return settings;
}

}  // namespace viaduct
