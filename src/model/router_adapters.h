#pragma once
// Adapters of routers in PEFT's files. In transformers 5 a router is no linear layer, so PEFT
// adapts its weight as a parameter (target_parameters: "model.layers.0.mlp.gate.weight"), and a
// rank or alpha of its own has to match that name, not the module's.

#include <map>
#include <string>

#include "model/family.h"
#include "model/model_config.h"

namespace viaduct {

/// The name in transformers 5 of something in a block with experts: "….mlp.X" of Mixtral's
/// "….block_sparse_moe.X".
std::string peft_block_name(const TensorNames& names, std::string name);

/// PEFT's parameter of a router: "model.layers.0.mlp.gate.weight" of Mixtral's
/// "model.layers.0.block_sparse_moe.gate", "….router.weight" of Granite's "….router.layer" and of
/// Phi-MoE's "….gate".
std::string peft_router_parameter(const ModelConfig& model, const std::string& router);

/// Those of all routers of a model, by module. Gates of shared experts, which are linear layers
/// there, are not among them.
std::map<std::string, std::string> peft_router_parameters(const ModelConfig& model);

}  // namespace viaduct
