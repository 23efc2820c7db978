#pragma once
// Hugging Face folders that store a projection of all experts of a layer as one tensor [E, in, out]
// (GPT-OSS: "experts.gate_up_proj"), seen as logical tensors [in, out] of one expert each
// ("experts.3.gate_up_proj"), and back. Biases alike.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/joined_tensors.h"
#include "model/model_config.h"

namespace viaduct {

/// Last parts of the names of such tensors in a family; empty if it has no such tensors.
std::vector<std::string> fused_expert_names(const TensorNames& names);

/// Shows a tensor that is stored for all experts as one tensor for each expert. Other tensors are
/// unchanged. `fused`: as fused_expert_names returns them. IoError where an expert is in both
/// forms.
std::unique_ptr<TensorSource> split_experts(std::unique_ptr<TensorSource> stored,
                                            const std::vector<std::string>& fused);

/// The inverse, for export: joins the tensors of single experts into one of all. IoError for
/// experts that are not 0, 1, … without gaps, or differ in shape or format.
class JoinedExperts : public JoinedTensors {
 public:
  /// `split` outlives this object.
  JoinedExperts(const TensorSource& split, const std::vector<std::string>& fused);
};

}  // namespace viaduct
