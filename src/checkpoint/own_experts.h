#pragma once
// Families whose own files have the experts of a layer in one tensor, gate above up [E, 2 F, H],
// and another one for down [E, H, F] (TensorNames::experts_gate_up), or the bias of their router's
// choice as a row [1, E]: the form for export. separate_experts.h reads it.

#include "checkpoint/joined_tensors.h"
#include "model/model_config.h"

namespace viaduct {

class OwnExperts : public JoinedTensors {
 public:
  /// `single` has single experts and outlives this object. Other tensors, and those of other
  /// families, are unchanged. IoError where an expert is missing, or differs from the first in
  /// shape or format.
  OwnExperts(const TensorSource& single, const ModelConfig& model);
};

}  // namespace viaduct
