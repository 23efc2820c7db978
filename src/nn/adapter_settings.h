#pragma once
// Low-rank adapters of a run (Hu et al. 2021, "LoRA"): which linear layers have one beside their
// frozen weight, and of which rank. The same on all ranks.

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "nn/parameter.h"

namespace viaduct {

/// W [out, in] becomes W' = W + scale · B · A with A [rank, in] and B [out, rank]; with magnitudes
/// m [out] (Liu et al. 2024, "DoRA") row i of it becomes m_i · W'_i / ‖W'_i‖.
struct AdapterShape {
  int64_t rank = 0;
  double alpha = 1;
  bool rank_stabilized = false;  // Kalajdzievski 2023, "rsLoRA"
  /// alpha / rank, or alpha / √rank.
  double scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (rank_stabilized ? std::sqrt(r) : r);
  }
  bool operator==(const AdapterShape&) const = default;
};

struct AdapterSettings {
  /// By the Hugging Face name of the weight's module ("model.layers.0.self_attn.q_proj").
  std::map<std::string, AdapterShape> modules;
  InitKind init = InitKind::kaiming_uniform;  // of A; B is zero
  bool magnitudes = false;                    // all have them (DoRA)
  double dropout = 0;                         // on their inputs, in training
  bool dropout_after = false;                 // on what they add instead
  /// Modules of the model itself that train as well, by the same names ("model.norm").
  std::set<std::string> trained;
  /// Of the frozen linear layers of blocks; none: their own.
  std::optional<BaseFormat> base_format = {};
  /// With BaseFormat::blocks: the types of the tensors that are stored so, by their Hugging Face
  /// names. A layer of several has them all, or its own format.
  std::map<std::string, GgufTensorType> blocks = {};
  /// The adapter's files have the experts of a layer together (checkpoint/peft_experts.h).
  bool fused_experts = false;

  /// Whether the run has adapters; then all other parameters are frozen but those of `trained`.
  bool any() const { return !modules.empty(); }
  /// Whether parameters are frozen: beside adapters, and those of a model in a format of its own
  /// beside which others have adapters (generate/adapted_model.h).
  bool freezes() const { return any() || base_format.has_value(); }
  const AdapterShape* of(const std::string& module) const {
    const auto found = modules.find(module);
    return found == modules.end() ? nullptr : &found->second;
  }
};

/// The name of an adapter's tensor in PEFT's files: prefix + module + suffix.
inline constexpr const char* kAdapterPrefix = "base_model.model.";
inline constexpr const char* kAdapterA = ".lora_A.weight";
inline constexpr const char* kAdapterB = ".lora_B.weight";
inline constexpr const char* kAdapterMagnitude = ".lora_magnitude_vector";

/// The module of a parameter: "model.norm" of "model.norm.weight".
inline std::string module_of_parameter(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}
/// The name in the model of a tensor that PEFT's files have beside adapters, for it trains as well.
inline std::string without_adapter_prefix(const std::string& name) {
  const std::string prefix = kAdapterPrefix;
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace viaduct
