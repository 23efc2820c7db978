#pragma once
// The switches of fused operations, and whether the head keeps its logits (section `model`).

#include <string>

#include "config/field.h"
#include "nn/fusions.h"

namespace viaduct {

struct FusionConfig {
  bool cross_entropy_loss_fusion = true;
  std::string cross_entropy_fusion_impl = "native";
  bool gradient_accumulation_fusion = true;
  /// `auto`: for the activations that Megatron fuses.
  Auto<bool> bias_activation_fusion;
  bool bias_dropout_fusion = true;
  /// `auto`: true where the cross entropy is fused.
  Auto<bool> recompute_logits;

  /// Replaces each `auto`, for a feed-forward with this activation (ModelFields::activation_func).
  void resolve(const std::string& activation);
  /// After `resolve`.
  Fusions fusions() const;
};

/// Whether `bias_activation_fusion` may be asked for.
bool fuses_with_bias(const std::string& activation);

FieldGroup fusion_fields(FusionConfig& config);

}  // namespace viaduct
