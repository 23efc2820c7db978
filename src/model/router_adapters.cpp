#include "model/router_adapters.h"

#include "model/parameter_maker.h"

namespace viaduct {

std::string peft_experts_module(const TensorNames& names, int64_t layer) {
  if (!names.peft_experts.empty()) return ParameterMaker::at(names.peft_experts, layer);
  const std::string one = ParameterMaker::at(names.expert_up, layer);
  return one.substr(0, one.rfind(".{}."));
}

std::string peft_router_parameter(const TensorNames& names, int64_t layer) {
  const std::string& own = names.peft_router;
  return ParameterMaker::at(own.empty() ? names.router + ".weight" : own, layer);
}

std::map<std::string, std::string> peft_router_parameters(const ModelConfig& model) {
  std::map<std::string, std::string> parameters;
  if (!model.moe.any()) return parameters;
  const TensorNames& names = model_family(model.family).names;
  for (int64_t layer = 0; layer < model.layers + model.mtp_layers; ++layer) {
    if (!model.moe.routes(model.kind_of(layer))) continue;
    parameters.emplace(ParameterMaker::at(names.router, layer),
                       peft_router_parameter(names, layer));
  }
  return parameters;
}

}  // namespace viaduct
