#include "model/image_adapters.h"

#include <algorithm>

#include "base/error.h"
#include "model/block_modules.h"
#include "model/vision_names.h"

namespace viaduct {
namespace {

/// Of the blocks [begin, end).
void add_tower_blocks(const ModelConfig& model, int64_t begin, int64_t end,
                      std::vector<AdaptableModule>& modules) {
  const ModelConfig tower = tower_blocks(model.vision, model);
  const TensorNames names = tower_names(model.vision.tower);
  for (int64_t layer = begin; layer < end; ++layer) {
    const BlockModules block(tower, names, layer, modules);
    block.add_attention();
    block.add_feed_forward();
  }
}

}  // namespace

bool names_image_part(const std::string& pattern) {
  return pattern.find(kTowerPattern) != std::string::npos ||
         pattern.find(kProjectorPattern) != std::string::npos;
}

bool is_in_image_part(const std::string& module, const std::string& pattern) {
  return names_image_part(pattern) && module.starts_with(pattern + ".");
}

void add_image_modules(const ModelConfig& model, std::vector<AdaptableModule>& modules) {
  const VisionConfig& vision = model.vision;
  if (!vision.any()) return;
  const size_t first = modules.size();
  add_tower_blocks(model, 0, vision.read_layers(), modules);
  if (vision.projector == ProjectorKind::mlp) {
    const auto inputs = static_cast<int64_t>(vision.feature_layers.size());
    const std::string projector = std::string(kProjectorPattern) + ".";
    modules.push_back({projector + "linear_1", "", model.hidden, inputs * vision.hidden});
    modules.push_back({projector + "linear_2", "", model.hidden, model.hidden});
  }
  for (size_t i = first; i < modules.size(); ++i) {
    modules[i].of_images = true;
    modules[i].layer = "";  // Megatron's names are the text model's
  }
  for (AdaptableModule& module : modules)
    module.in_peft = peft_module_name(model, module.peft_name());
}

bool names_unread_block(const ModelConfig& model, const std::string& pattern) {
  const VisionConfig& vision = model.vision;
  if (!vision.any()) return false;
  std::vector<AdaptableModule> unread;
  add_tower_blocks(model, vision.read_layers(), vision.layers, unread);
  return std::ranges::any_of(unread, [&](const AdaptableModule& module) {
    return module.name.starts_with(pattern + ".") || names_module(pattern, module.name) ||
           names_module(pattern, peft_module_name(model, module.name));
  });
}

std::string peft_module_name(const ModelConfig& model, const std::string& module) {
  const std::string end = ".weight";  // names are told apart by what is before it
  const std::string name = peft_tensor_name(model, module + end);
  return name.substr(0, name.size() - end.size());
}

std::string peft_tensor_name(const ModelConfig& model, const std::string& tensor) {
  return model.vision.any() ? stored_image_name(tensor, kPeftTower) : tensor;
}

void freeze_images(const AdapterSettings& adapters, VisionConfig& vision) {
  if (!vision.any() || !adapters.any()) return;
  const auto refuse = [](bool asked, const char* field) {
    VIADUCT_CHECK(ConfigError, !asked,
                  "model.{}: true, beside adapters (section peft), which freeze the whole model; "
                  "expected false (peft.target_modules says which layers have an adapter)",
                  field);
  };
  refuse(vision.freeze_text, "freeze_language_model");
  refuse(vision.freeze_tower, "freeze_vision_model");
  refuse(vision.freeze_projector, "freeze_vision_projection");
  const auto trains = [&](const std::string& part) {
    const auto of_part = [&](const std::string& module) { return module.starts_with(part + "."); };
    return std::ranges::any_of(adapters.modules,
                               [&](const auto& entry) { return of_part(entry.first); }) ||
           std::ranges::any_of(adapters.trained, of_part);
  };
  vision.freeze_tower = !trains(kTowerPattern);
  vision.freeze_projector = !trains(kProjectorPattern);
}

}  // namespace viaduct
