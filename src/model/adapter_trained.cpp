#include "model/adapter_trained.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "base/units.h"
#include "device/device.h"
#include "model/adapter_modules.h"
#include "model/family.h"
#include "model/image_adapters.h"
#include "model/model.h"

namespace viaduct {
namespace {

/// Whether all of an image projector can train: it is of linear layers.
bool trains_projector(const ModelConfig& model) {
  return model.vision.any() && model.vision.projector == ProjectorKind::mlp;
}

/// Whether `pattern` names the projector, or what it has of it, and a module is in that.
bool is_in_projector(const std::string& module, const std::string& pattern) {
  return pattern.starts_with(kProjectorPattern) && is_in_image_part(module, pattern);
}

[[noreturn]] void refuse(const std::string& pattern, const std::vector<AdaptableModule>& linear,
                         const std::vector<std::string>& modules, const ModelConfig& model) {
  const TensorNames& names = model_family(model.family).names;
  if (model.tied_embeddings && names_module(pattern, names.head)) {
    fail<ConfigError>(
        "peft.train: {} is the token table in this model (tied); name {}, which trains both",
        pattern, names.token_embedding);
  }
  const auto is_named = [&](const AdaptableModule& one) {
    return names_module(pattern, one.name) || names_module(pattern, one.peft_name());
  };
  const auto is_inside = [&](const AdaptableModule& one) {
    return is_in_image_part(one.name, pattern);
  };
  if (std::ranges::any_of(linear, is_inside))
    fail<ConfigError>(
        "peft.train: {} has linear layers, whose adapters train (peft.target_modules); name the "
        "norms or tables in it",
        pattern);
  if (std::ranges::any_of(linear, is_named))
    fail<ConfigError>(
        "peft.train: {} is a linear layer of the blocks, whose adapter trains "
        "(peft.target_modules); without section peft all of it does",
        pattern);
  std::vector<std::string> parts = last_parts(modules);
  if (trains_projector(model)) parts.emplace_back(kProjectorPattern);
  const auto near = nearest_name(pattern, parts);
  fail<ConfigError>("peft.train: {} matches nothing of the model{} (modules: {})", pattern,
                    near ? "; nearest: " + *near : "", fmt::join(parts, ", "));
}

/// Whether it is a layer of an image projector, which may train whole beside adapters.
bool is_projector(const AdaptableModule& module) {
  return module.of_images && module.name.starts_with(kProjectorPattern);
}

}  // namespace

std::vector<std::string> trainable_modules(const ModelConfig& model) {
  const auto device = make_sim_device();  // only structure, no memory
  const auto built = build_model(*device, model.without_training_layers(),
                                 {.precision = precision_recipe(RecipeName::fp32)}, 1);
  std::set<std::string> linear;
  for (const AdaptableModule& one : adaptable_modules(model))
    if (!is_projector(one)) linear.insert(one.name);
  std::vector<std::string> modules;
  for (const Parameter* parameter : built->parameters()) {
    if (parameter->parts.empty() || parameter->experts.any() || parameter->load_bias_rate) continue;
    if (!parameter->trained) continue;  // of a vision tower, and nothing reads it
    const std::string& name = parameter->parts.front().name;
    const std::string module = module_of_parameter(name);
    const bool own = std::ranges::all_of(parameter->parts, [&](const Part& part) {
      return module_of_parameter(part.name) == module;
    });
    const bool is_module = name.ends_with(".weight") || name.ends_with(".bias");
    if (own && is_module && !linear.contains(module) &&
        std::ranges::find(modules, module) == modules.end())
      modules.push_back(module);
  }
  return modules;
}

bool is_tied_table(const ModelConfig& model, const std::string& module) {
  return model.tied_embeddings && module == model_family(model.family).names.token_embedding;
}

std::vector<std::string> table_copies(const ModelConfig& model) {
  const ModelFamily& family = model_family(model.family);
  std::vector<std::string> copies;
  if (model.encoder.any()) {
    for (const TensorNames* names : {&family.encoder_names, &family.names}) {
      const std::string& norm = names->final_norm;  // "encoder.final_layer_norm"
      copies.push_back(norm.substr(0, norm.find('.')) + ".embed_tokens");
    }
  }
  if (model.tied_embeddings) copies.push_back(family.names.head);
  return copies;
}

std::string frozen_matches(const std::vector<std::string>& patterns, const ModelConfig& model,
                           const AdapterSettings& adapters) {
  std::string text;
  if (patterns.empty()) return text;
  const std::vector<AdaptableModule> linear = adaptable_modules(model);
  for (const std::string& pattern : patterns) {
    std::vector<std::string> found;
    for (const AdaptableModule& one : linear) {
      if (is_projector(one) || adapters.of(one.name) != nullptr) continue;
      if (names_module(pattern, one.name) || names_module(pattern, one.peft_name()))
        found.push_back(one.name);
    }
    if (found.empty()) continue;
    text += fmt::format(
        "{}peft.train: {} also matches {} of the blocks ({}{}), which stay frozen: beside adapters "
        "linear layers train by theirs (peft.target_modules)",
        text.empty() ? "" : "; ", pattern, counted(std::ssize(found), "linear layer"),
        found.front(), found.size() > 1 ? ", …" : "");
  }
  return text;
}

std::set<std::string> choose_trained(const std::vector<std::string>& patterns,
                                     const ModelConfig& model) {
  std::set<std::string> chosen;
  if (patterns.empty()) return chosen;
  const std::vector<std::string> modules = trainable_modules(model);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (const std::string& module : modules) {
      if (!names_module(pattern, module) &&
          !names_module(pattern, peft_module_name(model, module)) &&
          !(trains_projector(model) && is_in_projector(module, pattern)))
        continue;
      chosen.insert(module);
      any = true;
    }
    if (!any) refuse(pattern, adaptable_modules(model), modules, model);
  }
  return chosen;
}

}  // namespace viaduct
