#include "model/adapter_modules.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/name_pattern.h"
#include "base/nearest.h"
#include "model/adapter_patterns.h"
#include "model/adapter_trained.h"
#include "model/block_modules.h"
#include "model/expert_adapters.h"
#include "model/image_adapters.h"

namespace viaduct {
namespace {

/// Whether a pattern names the layer of multi-token prediction that a module is in.
bool names_further_layer(const std::string& pattern, const AdaptableModule& module) {
  return pattern.find("layers." + std::to_string(module.further) + ".") != std::string::npos;
}

/// `asks`: of modules that are to have an adapter, not of those that are left out.
bool matches(const std::string& pattern, const AdaptableModule& module, bool asks) {
  if (module.further >= 0 && asks && pattern != kFurtherLayersPattern &&
      !names_further_layer(pattern, module))
    return false;
  if (module.named_only) {
    const auto is_name = [&](const std::string& name) {
      return last_part(pattern) == last_part(name) && names_module(pattern, name);
    };
    return is_name(module.name) || is_name(module.peft_name());
  }
  if (module.further >= 0 && pattern == kFurtherLayersPattern) return true;
  if (module.of_images && is_in_image_part(module.name, pattern)) return true;
  return pattern == "all-linear" || pattern == module.layer || names_module(pattern, module.name) ||
         (!module.in_peft.empty() && names_module(pattern, module.in_peft));
}

/// Tables and the head are matrices too, and have no adapters.
void check_no_table(const std::string& pattern, const char* field, const ModelConfig& model) {
  const TensorNames& names = model_family(model.family).names;
  for (const std::string& table : {names.token_embedding, names.position_embedding, names.head}) {
    if (table.empty() || !names_module(pattern, table)) continue;
    const bool head = table == names.head;
    fail<ConfigError>(
        "peft.{}: {}{}, {}, has no adapter: those of embeddings and heads are not built; "
        "peft.train=[{}] trains it whole",
        field, pattern, pattern == table ? "" : fmt::format(" ({})", table),
        head ? "the head" : "an embedding",
        last_part(head && model.tied_embeddings ? names.token_embedding : table));
  }
}

/// The modules that one of the patterns matches, which all match something.
std::vector<bool> matched(const std::vector<std::string>& patterns, const std::string& field,
                          const std::vector<AdaptableModule>& modules, const ModelConfig& model) {
  std::vector<bool> found(modules.size(), false);
  const bool asks = field == "target_modules";
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (const bool of_images : {false, true}) {
      // A name that the text model has too asks for its layers alone.
      if (of_images && asks && any && !names_image_part(pattern)) continue;
      for (size_t i = 0; i < modules.size(); ++i) {
        if (modules[i].of_images != of_images || !matches(pattern, modules[i], asks)) continue;
        found[i] = any = true;
      }
    }
    if (any) continue;
    std::vector<std::string> names{"all-linear"};
    const auto add = [&](const std::string& name) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    for (const AdaptableModule& module : modules)
      if (module.further < 0) add(last_part(module.peft_name()));
    for (const AdaptableModule& module : modules)
      if (!module.named_only && module.further < 0 && !module.of_images)
        add(std::string(module.layer));
    if (model.mtp_layers > 0) add(kFurtherLayersPattern);
    for (const AdaptableModule& module : modules)
      if (module.of_images) add(module.name.substr(0, module.name.find('.')));
    check_no_table(pattern, field.c_str(), model);
    VIADUCT_CHECK(ConfigError, !names_unread_block(model, pattern),
                  "peft.{}: {} is in a block of the vision tower that nothing reads: the last one "
                  "that vision_feature_layer takes is block {}",
                  field, pattern, model.vision.read_layers() - 1);
    const auto near = nearest_name(pattern, names);
    fail<ConfigError>("peft.{}: {} matches no linear layer of the model{} (layers: {})", field,
                      pattern, near ? fmt::format("; nearest: {}", *near) : "",
                      fmt::join(names, ", "));
  }
  return found;
}

/// Each pattern of exclude_modules leaves out a layer that target_modules asks for.
void check_exclusions_act(const PeftConfig& config, const std::vector<bool>& wanted,
                          const std::vector<AdaptableModule>& modules) {
  for (const std::string& pattern : config.exclude_modules) {
    bool acts = false;
    for (size_t i = 0; i < modules.size() && !acts; ++i)
      acts = wanted[i] && matches(pattern, modules[i], false);
    VIADUCT_CHECK(ConfigError, acts,
                  "peft.exclude_modules: {} has no effect: peft.target_modules asks for no layer "
                  "that it matches",
                  pattern);
  }
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

/// Of the first pattern that matches either name of a module; null if none does.
const double* own_number(const std::vector<std::pair<std::string, double>>& patterns,
                         const AdaptableModule& module, const std::string& field) {
  const double* here = pattern_number(patterns, module.name, field);
  if (module.in_peft.empty()) return here;
  const double* there = pattern_number(patterns, module.in_peft, field);
  if (here == nullptr || there == nullptr) return here == nullptr ? there : here;
  return std::min(here, there);
}

InitKind init_of(LoraAInit init) {
  if (init == LoraAInit::xavier) return InitKind::xavier_normal;
  return init == LoraAInit::normal ? InitKind::rank_normal : InitKind::kaiming_uniform;
}

}  // namespace

std::vector<AdaptableModule> adaptable_modules(const ModelConfig& model) {
  const TensorNames& names = model_family(model.family).names;
  std::vector<AdaptableModule> modules;
  for (int64_t layer = 0; layer < model.encoder.layers; ++layer) {
    const BlockModules block(model, model_family(model.family).encoder_names, layer, modules);
    block.add_attention();
    block.add_feed_forward();
  }
  for (AdaptableModule& module : modules) module.of_encoder = true;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const BlockModules block(model, names, layer, modules);
    block.add_attention();
    if (model.encoder.any()) block.add_cross_attention();
    block.add_feed_forward();
  }
  if (names.mtp_projection.empty()) {  // building the model says so, where it has such layers
    add_image_modules(model, modules);
    return modules;
  }
  for (int64_t layer = model.layers; layer < model.layers + model.mtp_layers; ++layer) {
    const size_t first = modules.size();
    const BlockModules block(model, names, layer, modules);
    block.add_projection();
    block.add_attention();
    block.add_feed_forward();
    for (size_t i = first; i < modules.size(); ++i) modules[i].further = layer;
  }
  add_image_modules(model, modules);
  return modules;
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::vector<std::string> last_parts(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const std::string part = last_part(name);
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
  }
  return parts;
}

bool names_module(const std::string& pattern, const std::string& module) {
  const auto fits = [&](const std::string& glob) {
    return fnmatch(glob.c_str(), module.c_str(), 0) == 0;
  };
  return fits(pattern) || fits("*." + pattern);
}

const double* pattern_number(const std::vector<std::pair<std::string, double>>& patterns,
                             const std::string& module, const std::string& where) {
  for (const auto& [text, number] : patterns) {
    const auto pattern = NamePattern::read(text, NamePattern::Of::end);
    VIADUCT_CHECK(ConfigError, pattern,
                  "{}: {} is not a regular expression (of at most 1000 characters, without "
                  "references to groups)",
                  where, shown_name(text));
    if (pattern->matches(module)) return &number;
  }
  return nullptr;
}

void check_magnitudes(const AdapterSettings& settings, const ModelConfig& model,
                      const std::string& what) {
  if (!settings.magnitudes) return;
  std::vector<std::string> names;
  for (const AdaptableModule& module : adaptable_modules(model)) {
    if (module.magnitudes || settings.of(module.name) == nullptr) continue;
    const bool expert = is_expert_module(module.name) && !module.named_only;
    const std::string name = expert ? "\"*.experts.*\"" : last_part(module.name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  VIADUCT_CHECK(ConfigError, names.empty(),
                "{} of experts, routers, down-projections of latent attention and projections of "
                "multi-token prediction is not built yet; expected peft.exclude_modules=[{}] "
                "beside it, or lora",
                what, fmt::join(names, ", "));
}

AdapterSettings choose_adapters(const PeftConfig& config, const ModelConfig& model) {
  const std::vector<AdaptableModule> modules = adaptable_modules(model);
  VIADUCT_CHECK(
      ConfigError, !config.target_modules.empty(),
      "peft.target_modules: empty; expected linear layers that get adapters (all-linear: all of "
      "them), beside which peft.train trains others whole");
  const std::vector<bool> wanted = matched(config.target_modules, "target_modules", modules, model);
  const std::vector<bool> left_out =
      matched(config.exclude_modules, "exclude_modules", modules, model);
  check_exclusions_act(config, wanted, modules);
  const auto ranks = numbers(config.rank_pattern, "rank_pattern", true);
  const auto alphas = numbers(config.alpha_pattern, "alpha_pattern", false);
  AdapterSettings settings;
  settings.init = init_of(config.lora_A_init_method);
  settings.magnitudes = config.scheme == AdapterScheme::dora;
  settings.dropout = config.dropout;
  settings.trained = choose_trained(config.train, model);
  std::vector<std::string> adapted;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!wanted[i] || left_out[i]) continue;
    const AdaptableModule& module = modules[i];
    const double* rank = own_number(ranks, module, "peft.rank_pattern");
    const double* alpha = own_number(alphas, module, "peft.alpha_pattern");
    AdapterShape shape;
    shape.rank = rank != nullptr ? static_cast<int64_t>(*rank) : config.dim;
    shape.alpha = alpha != nullptr ? *alpha : config.alpha;
    shape.rank_stabilized = config.rslora;
    const int64_t most = std::min(module.in, module.out);
    VIADUCT_CHECK(ConfigError, shape.rank <= most,
                  "peft.{}: a rank of {} is more than {}, {} × {}, can have; expected 1 to {}{}",
                  rank != nullptr ? "rank_pattern" : "dim", shape.rank, module.name, module.out,
                  module.in, most,
                  rank != nullptr
                      ? ""
                      : fmt::format(", or another rank for it alone: peft.rank_pattern={{{}: {}}}",
                                    last_part(module.peft_name()), most));
    settings.modules.emplace(module.name, shape);
    adapted.push_back(module.name);
    if (!module.in_peft.empty()) adapted.push_back(module.in_peft);
  }
  VIADUCT_CHECK(ConfigError, settings.any(),
                "peft.exclude_modules: leaves no layer of peft.target_modules");
  for (const std::string& module : settings.trained) {
    VIADUCT_CHECK(ConfigError, settings.of(module) == nullptr,
                  "peft.train: {} has an adapter already (peft.target_modules); expected one of "
                  "the two",
                  module);
  }
  check_magnitudes(settings, model, "peft.scheme: dora");
  check_patterns_act(ranks, adapted, "peft.rank_pattern");
  check_patterns_act(alphas, adapted, "peft.alpha_pattern");
  return settings;
}

}  // namespace viaduct
