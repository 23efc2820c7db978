#include "model/frozen_encoder.h"

#include <algorithm>

#include "model/family.h"

namespace viaduct {

bool encoder_is_frozen(const ModelConfig& model, const AdapterSettings& adapters) {
  if (!model.encoder.any() || !adapters.any()) return false;
  const ModelFamily& family = model_family(model.family);
  const std::string& norm = family.encoder_names.final_norm;  // "encoder.final_layer_norm"
  const std::string stack = norm.substr(0, norm.find('.') + 1);
  const auto is_in_front = [&](const std::string& module) {
    return module.starts_with(stack) || module == family.names.token_embedding;
  };
  return std::ranges::none_of(adapters.modules,
                              [&](const auto& entry) { return is_in_front(entry.first); }) &&
         std::ranges::none_of(adapters.trained, is_in_front);
}

}  // namespace viaduct
