#include "model/router_adapters.h"

#include "model/parameter_maker.h"

namespace viaduct {

std::string peft_block_name(const TensorNames& names, std::string name) {
  constexpr std::string_view kOfFolder = ".block_sparse_moe.";
  // Families whose folders have the experts together keep the block's name (Granite).
  const size_t place = names.experts_gate_up.empty() ? name.find(kOfFolder) : std::string::npos;
  if (place != std::string::npos) name.replace(place, kOfFolder.size(), ".mlp.");
  return name;
}

std::string peft_router_parameter(const ModelConfig& model, const std::string& router) {
  const TensorNames& names = model_family(model.family).names;
  constexpr std::string_view kLinear = ".layer", kGate = ".gate";
  std::string module = router;
  if (model.family == "phimoe" && module.ends_with(kGate))
    module.replace(module.size() - kGate.size(), kGate.size(), ".router");
  // Granite: transformers takes the linear layer out of the router.
  if (!names.experts_gate_up.empty() && module.ends_with(kLinear))
    module.resize(module.size() - kLinear.size());
  return peft_block_name(names, module + ".weight");
}

std::map<std::string, std::string> peft_router_parameters(const ModelConfig& model) {
  std::map<std::string, std::string> parameters;
  if (!model.moe.any()) return parameters;
  const TensorNames& names = model_family(model.family).names;
  for (int64_t layer = 0; layer < model.layers + model.mtp_layers; ++layer) {
    if (!model.moe.routes(model.kind_of(layer))) continue;
    const std::string router = ParameterMaker::at(names.router, layer);
    parameters.emplace(router, peft_router_parameter(model, router));
  }
  return parameters;
}

}  // namespace viaduct
