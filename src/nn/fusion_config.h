#pragma once
// The switches of fused operations, and whether the head keeps its logits (section `model`).

#include <array>
#include <string_view>

#include "config/field.h"
#include "nn/feed_forward_activation.h"
#include "nn/fusions.h"

namespace viaduct {

enum class CrossEntropyKernel { native };
constexpr auto choice_names(CrossEntropyKernel) {
  return std::to_array<std::string_view>({"native"});
}

struct FusionConfig {
  bool cross_entropy_loss_fusion = true;
  CrossEntropyKernel cross_entropy_fusion_impl = CrossEntropyKernel::native;
  bool gradient_accumulation_fusion = true;
  /// `auto`: for the activations that Megatron fuses.
  Auto<bool> bias_activation_fusion;
  bool bias_dropout_fusion = true;
  bool gemm_epilogue_fusion = true;
  /// `auto`: on if the cross entropy is fused and the logits of a step take too much memory to
  /// keep.
  Auto<bool> recompute_logits;

  /// Replaces each `auto`, for a feed-forward with this activation (ModelFields::activation_func)
  /// and this many bytes of logits between forward and backward of a rank.
  void resolve(FeedForwardActivation activation, int64_t logits_bytes);
  /// After `resolve`.
  Fusions fusions() const;
};

/// Whether this activation supports `bias_activation_fusion`.
bool fuses_with_bias(FeedForwardActivation activation);

FieldGroup fusion_fields(FusionConfig& config);

}  // namespace viaduct
