#include "checkpoint/peft_image_names.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/expert_slices.h"
#include "checkpoint/peft_contents.h"
#include "model/image_adapters.h"
#include "model/vision_names.h"
#include "nn/adapter_settings.h"

namespace viaduct {
namespace {

/// "model.norm" of "model.norm.lora_A.weight"; "" for tensors of no adapter.
std::string module_of_factor(const std::string& tensor) {
  for (const std::string_view end : {kAdapterA, kAdapterB, kAdapterMagnitude})
    if (tensor.ends_with(end)) return tensor.substr(0, tensor.size() - end.size());
  return "";
}

/// Whether nothing that the model computes here reads a tensor of this name.
bool is_unread(const std::string& name, const VisionConfig& vision) {
  const std::string tower = std::string(kTowerPattern) + ".";
  if (!vision.any())
    return name.starts_with(tower) || name.starts_with(std::string(kProjectorPattern) + ".");
  if (module_of_factor(name).empty()) return false;
  if (name.starts_with(tower + "head.")) return true;
  for (int64_t block = vision.read_layers(); block < vision.layers; ++block)
    if (name.starts_with(fmt::format("{}encoder.layers.{}.", tower, block))) return true;
  return false;
}

// Names are told apart by what is before it.
const std::string kWeight = ".weight";

std::string without_weight(std::string name) {
  name.resize(name.size() - kWeight.size());
  return name;
}

/// The module here of one that adapter_config.json names.
std::string own_module_name(const std::string& said) {
  auto name = image_model_name(said + kWeight);
  return name ? without_weight(*std::move(name)) : said;
}

}  // namespace

OwnNames with_own_names(std::unique_ptr<TensorSource> stored, const ModelConfig& model) {
  OwnNames result;
  std::vector<ExpertSlice> seen;
  std::map<std::string, std::string> stored_as;
  bool changed = false;
  for (const TensorInfo& info : stored->tensors()) {
    const std::string inner = without_adapter_prefix(info.name);
    const std::string own =
        inner == info.name ? info.name : image_model_name(inner).value_or(inner);
    if (inner != info.name && is_unread(own, model.vision)) {
      if (module_of_factor(own).empty()) result.left_out.push_back(module_of_parameter(own));
      changed = true;
      continue;
    }
    const std::string name = inner == info.name ? own : kAdapterPrefix + own;
    changed = changed || name != info.name;
    if (const std::string module = module_of_factor(own); !module.empty() && own != inner)
      result.stored_modules[module] = module_of_factor(inner);
    const auto [at, fresh] = stored_as.try_emplace(name, info.name);
    VIADUCT_CHECK(IoError, fresh, "{}: \"{}\" and \"{}\" are the same tensor of the adapter",
                  stored->where(), shown_name(at->second), shown_name(info.name));
    seen.push_back({.info = {name, info.dtype, info.shape}, .stored = info.name});
  }
  result.tensors =
      changed ? std::make_unique<ExpertSlices>(std::move(stored), seen) : std::move(stored);
  return result;
}

PeftModuleNames::PeftModuleNames(const OwnNames& own, const PeftTargets& targets, bool of_run)
    : stored_(own.stored_modules) {
  // Where a model has images its runs write whole names.
  as_peft_ = of_run && std::ranges::any_of(targets.modules.parts, [](const std::string& part) {
               return own_module_name(part) != part;
             });
}

std::string PeftModuleNames::of(const std::string& name) const {
  if (as_peft_) return without_weight(stored_image_name(name + kWeight, kPeftTower));
  const auto stored = stored_.find(name);
  return stored == stored_.end() ? name : stored->second;
}

std::vector<std::string> own_saved_modules(std::vector<std::string> saved, const OwnNames& own) {
  for (std::string& end : saved) end = own_module_name(end);
  std::erase_if(saved, [&](const std::string& end) {
    const auto ends = [&](const std::string& module) { return is_saved_as(module, end); };
    return std::ranges::any_of(own.left_out, ends) &&
           std::ranges::none_of(own.tensors->tensors(), [&](const TensorInfo& info) {
             return ends(module_of_parameter(without_adapter_prefix(info.name)));
           });
  });
  return saved;
}

std::string peft_file_name(const ModelConfig& model, const std::string& name) {
  const std::string inner = without_adapter_prefix(name);
  return inner == name ? name : kAdapterPrefix + peft_tensor_name(model, inner);
}

}  // namespace viaduct
