#pragma once
// The experts of a layer and its router: their modules here, and what PEFT calls them together.

#include <cstdint>
#include <string>
#include <vector>

#include "model/expert_adapters.h"
#include "model/model_config.h"

namespace viaduct {

/// "{}" in a name is the expert.
struct LayerExperts {
  std::string fused;                  // PEFT's module of all of them: "model.layers.0.mlp.experts"
  std::string gate, up, down;         // gate: empty without a gate, or where up has it
  std::string together;               // gate and up as one: of its own name, or up
  int64_t up_rows = 0;                // of `together`
  bool further = false;               // of multi-token prediction
  std::string router, its_parameter;  // of the model's folder; PEFT's: "….mlp.gate.weight"

  std::string up_parameter() const { return fused + "." + kJoinedExpert; }
  std::string down_parameter() const { return fused + ".down_proj"; }
};

/// Of the layers that route, in order.
std::vector<LayerExperts> layers_with_experts(const ModelConfig& model);

}  // namespace viaduct
