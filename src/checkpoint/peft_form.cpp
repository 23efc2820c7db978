#include "checkpoint/peft_form.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/peft_experts.h"
#include "model/adapter_modules.h"
#include "model/adapter_trained.h"
#include "model/expert_adapters.h"
#include "model/family.h"
#include "model/image_adapters.h"
#include "model/router_adapters.h"

namespace viaduct {
namespace {

/// "mlp.gate_proj" of "model.layers.3.mlp.gate_proj".
std::string inside_layer(const std::string& module) {
  const size_t number = module.find_first_of("0123456789");
  return number == std::string::npos ? module : module.substr(module.find('.', number) + 1);
}

/// With transformers 5 PEFT (0.21, transformers_weight_conversion.py) takes every entry of
/// target_modules that ends in gate_proj, up_proj or down_proj for the fused experts, in models
/// with experts but qwen2_moe: other layers of these names then have no adapter, and no error says
/// so. Those layers, as they are called inside of a block.
std::set<std::string> lost_layers(const AdapterSettings& settings, const ModelConfig& model) {
  std::set<std::string> lost;
  if (!model.moe.any() || model.family == "qwen2_moe") return lost;
  for (const auto& [name, shape] : settings.modules) {
    const std::string last = last_part(name);
    const bool moved = last == "gate_proj" || last == "up_proj" || last == "down_proj";
    if (moved && !is_expert_module(name)) lost.insert(inside_layer(name));
  }
  return lost;
}

/// Puts its copies beside a token table that trains.
void add_table_copies(PeftForm& form, const PeftAdapter& adapter, const ModelConfig& model) {
  const std::string table =
      kAdapterPrefix + model_family(model.family).names.token_embedding + ".weight";
  for (const std::string& module : table_copies(model)) {
    const std::string copy = kAdapterPrefix + module + ".weight";
    if (adapter.tensors->contains(copy)) continue;
    form.copies[copy] = table;
    TensorInfo info = *adapter.tensors->find(table);
    info.name = copy;
    form.infos.push_back(info);
  }
}

/// The configuration with what makes PEFT load the table's copies. It ties `embed_tokens` and the
/// head, and other tables (GPT-2's wte) only where modules_to_save names the head. Of an
/// encoder-decoder (T5) it ties none that it can load: there each copy is a module by itself.
std::string naming_copies(const std::string& text, const ModelConfig& model) {
  const TensorNames& names = model_family(model.family).names;
  const std::string table = peft_module_name(model, names.token_embedding);
  const bool stacks = model.encoder.any();
  if (!stacks && (!model.tied_embeddings || table.ends_with("embed_tokens"))) return text;
  auto config = parse_json<nlohmann::ordered_json>(text, kAdapterConfigFile);
  auto& saved = config["modules_to_save"];
  if (stacks) {
    for (const std::string& module : table_copies(model))
      if (std::find(saved.begin(), saved.end(), module) == saved.end()) saved.push_back(module);
    config["ensure_weight_tying"] = false;
  } else {
    for (auto& module : saved)
      if (module == table) module = names.head;
  }
  return config.dump(2) + "\n";
}

using Routers = std::map<std::string, std::string>;  // PEFT's parameter, by module

bool is_of_router(const std::string& tensor, const Routers& routers) {
  for (const char* end : {kAdapterA, kAdapterB})
    if (tensor.ends_with(end))
      return routers.contains(without_adapter_prefix(tensor.substr(0, tensor.rfind(end))));
  return false;
}

/// Puts the adapters of routers beside those of experts, under PEFT's names.
void take_routers(const PeftAdapter& adapter, const Routers& routers, FusedExperts& made) {
  for (const auto& [router, parameter] : routers) {
    const AdapterShape* shape = adapter.settings.of(router);
    if (shape == nullptr) continue;
    made.parameters[parameter] = *shape;
    for (const char* end : {kAdapterA, kAdapterB})
      made.tensors[kAdapterPrefix + module_of_parameter(parameter) + end] =
          adapter.tensors->tensor(kAdapterPrefix + router + end);
  }
}

}  // namespace

std::optional<PeftLimit> peft_limit(const AdapterSettings& settings, const ModelConfig& model) {
  const std::set<std::string> lost = lost_layers(settings, model);
  if (!lost.empty())
    return PeftLimit{
        "target_modules",
        fmt::format("PEFT 0.21 with transformers 5 takes {} of {} for experts, and would load none "
                    "of their adapters, without an error; peft.exclude_modules=[{}] leaves them "
                    "out",
                    fmt::join(lost, ", "), model.family, fmt::join(lost, ","))};
  const auto routers = peft_router_parameters(model);
  const auto parameter = std::ranges::find_if(settings.modules, [&](const auto& module) {
    return is_expert_module(module.first) || routers.contains(module.first);
  });
  if (parameter == settings.modules.end()) return std::nullopt;
  if (settings.dropout > 0)
    return PeftLimit{"dropout", fmt::format("PEFT knows no dropout ({}) on adapters of experts and "
                                            "routers ({})",
                                            settings.dropout, parameter->first)};
  if (std::string apart = experts_apart(settings, model); !apart.empty())
    return PeftLimit{"target_modules", std::move(apart)};
  return std::nullopt;
}

PeftForm peft_form(const PeftAdapter& adapter, const ModelConfig& model) {
  if (const auto limit = peft_limit(adapter.settings, model))
    fail<ConfigError>(
        "{}: {}: PEFT cannot hold this adapter; merge it: convert --from MODEL --adapter {} --to "
        "DIR",
        adapter.tensors->where(), limit->reason, adapter.folder.string());
  PeftForm form{adapter.tensors->tensors(), {}, adapter.config, {}};
  const bool of_table =
      adapter.settings.trained.contains(model_family(model.family).names.token_embedding);
  if (of_table) {
    add_table_copies(form, adapter, model);
    form.config = naming_copies(form.config, model);
  }
  const auto& modules = adapter.settings.modules;
  const auto routers = peft_router_parameters(model);
  const bool parameters = std::ranges::any_of(modules, [&](const auto& module) {
    return is_expert_module(module.first) || routers.contains(module.first);
  });
  if (!parameters) return form;
  FusedExperts fused = fuse_expert_adapters(adapter.settings, model, [&](const std::string& name) {
    return adapter.tensors->tensor(name);
  });
  take_routers(adapter, routers, fused);
  AdapterSettings others = adapter.settings;
  std::erase_if(others.modules, [&](const auto& module) {
    return is_expert_module(module.first) || routers.contains(module.first);
  });
  std::erase_if(form.infos, [&](const TensorInfo& info) {
    return is_expert_module(info.name) || is_of_router(info.name, routers);
  });
  for (const auto& [name, tensor] : fused.tensors)
    form.infos.push_back({name, tensor.dtype(), tensor.shape()});
  form.made = std::move(fused.tensors);
  const auto config = parse_json<nlohmann::json>(adapter.config, kAdapterConfigFile);
  const auto base = config.find("base_model_name_or_path");
  form.config = peft_config_text(
      others, model,
      base != config.end() && base->is_string() ? base->get<std::string>() : std::string(),
      fused.parameters);
  if (of_table) form.config = naming_copies(form.config, model);
  return form;
}

}  // namespace viaduct
