#pragma once
// Adapters of routers in PEFT's files. In transformers 5 a router is no linear layer, so PEFT
// adapts its weight as a parameter (target_parameters: "model.layers.0.mlp.gate.weight"), and a
// rank or alpha of its own has to match that name, not the module's.

#include <map>
#include <string>

#include "model/family.h"
#include "model/model_config.h"

namespace viaduct {

/// PEFT's module of all experts of a layer: "model.layers.0.mlp.experts".
std::string peft_experts_module(const TensorNames& names, int64_t layer);

/// PEFT's parameter of the router of a layer: "model.layers.0.mlp.gate.weight".
std::string peft_router_parameter(const TensorNames& names, int64_t layer);

/// Those of all routers of a model, by module. Gates of shared experts, which are linear layers
/// there, are not among them.
std::map<std::string, std::string> peft_router_parameters(const ModelConfig& model);

}  // namespace viaduct
