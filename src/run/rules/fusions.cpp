// Fused operations, and what needs them.

#include "nn/fusion_config.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

void refuse_fusions(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const FusionConfig& fusion = config.fusion;
  const auto& activation = config.model.activation_func;
  if (fusion.bias_activation_fusion.value_or(false) && !activation.is_auto() &&
      !fuses_with_bias(activation.value())) {
    problems.add(
        "model.bias_activation_fusion: true is for gelu, gelu_tanh, quick_gelu and silu, found "
        "activation_func = {}; auto leaves it off",
        choice_name(activation.value()));
  }
  if (fusion.recompute_logits.value_or(false) && !fusion.cross_entropy_loss_fusion) {
    problems.add(
        "model.recompute_logits: true needs cross_entropy_loss_fusion, which is off: its "
        "probabilities are kept");
  }
  if (config.pipeline.defer_embedding_wgrad_compute && !fusion.gradient_accumulation_fusion) {
    problems.add(
        "comm_overlap.defer_embedding_wgrad_compute: true needs "
        "model.gradient_accumulation_fusion, which is off");
  }
}

}  // namespace

Topic fusions_topic() {
  return {refuse_fusions};
}

}  // namespace viaduct
