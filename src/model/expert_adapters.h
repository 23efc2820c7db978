#pragma once
// Names of the modules of experts that have adapters.

#include <string>

#include "model/family.h"

namespace viaduct {

/// The last part of the name of gate and up of an expert seen as one matrix, gate above up, with
/// one adapter: one A for both (PEFT's `target_parameters`, checkpoint/peft_experts.h).
inline constexpr const char* kJoinedExpert = "gate_up_proj";

/// That module of a family, with "{}" for layer and expert; empty where gate and up are one tensor
/// anyway, or there is no gate.
std::string joined_expert_name(const TensorNames& names);

/// Whether a module of this name is of a single expert.
inline bool is_expert_module(const std::string& module) {
  return module.find(".experts.") != std::string::npos;
}

}  // namespace viaduct
