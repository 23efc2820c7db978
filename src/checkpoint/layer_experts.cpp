#include "checkpoint/layer_experts.h"

#include "model/family.h"
#include "model/parameter_maker.h"
#include "model/router_adapters.h"

namespace viaduct {

std::vector<LayerExperts> layers_with_experts(const ModelConfig& model) {
  std::vector<LayerExperts> layers;
  if (!model.moe.any()) return layers;
  const TensorNames& names = model_family(model.family).names;
  for (int64_t layer = 0; layer < model.layers + model.mtp_layers; ++layer) {
    if (!model.moe.routes(model.kind_of(layer))) continue;
    const auto at = [&](const std::string& name) { return ParameterMaker::at(name, layer); };
    LayerExperts one;
    one.up = at(names.expert_up), one.down = at(names.expert_down);
    const bool fuses = fuses_experts(names);
    if (model.gated && !fuses) one.gate = at(names.expert_gate);
    one.together = one.gate.empty() ? one.up : at(joined_expert_name(names));
    one.up_rows = model.moe.feed_forward * (model.gated ? 2 : 1);
    one.further = layer >= model.layers;
    one.fused = peft_experts_module(names, layer);
    one.router = at(names.router), one.its_parameter = peft_router_parameter(names, layer);
    layers.push_back(std::move(one));
  }
  return layers;
}

}  // namespace viaduct
