// How attention is computed.

#include "precision/precision_config.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Attention's softmax is FP32 whatever attention_softmax_in_fp32 says.
std::string wide_softmax(const RunConfig& c, const ConfigOutcome&) {
  const auto backend = c.model.attention_backend.value_or(AttentionBackend::flash);
  if (backend != AttentionBackend::unfused)
    return "the softmax inside " + stated("model.attention_backend", backend) + " is FP32";
  return reason_if(dtype_bytes(precision_recipe(c.mixed_precision).activation) >= 4,
                   "activations are no narrower than FP32");
}

void refuse_attention(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  if (config.model.attention_backend.value_or(AttentionBackend::flash) != AttentionBackend::fused)
    return;
  const bool on_gpu =
      config.dist.on_cuda() || config.dist.simulated() || config.cuda_target.has_value();
  if (!on_gpu) {
    problems.add(
        "model.attention_backend: fused (cuDNN) needs dist.device = cuda, or a dry run for a GPU; "
        "nearest on cpu: flash");
  }
  if (dtype_bytes(precision_recipe(config.mixed_precision.recipe).activation) != 2) {
    problems.add(
        "model.attention_backend: fused (cuDNN) computes 16-bit activations, those of "
        "mixed_precision.recipe = {} are wider; nearest: bf16_mixed, or flash",
        choice_name(config.mixed_precision.recipe));
  }
}

}  // namespace

Topic attention_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.attention_softmax_in_fp32"}, wide_softmax},
  };
  return {refuse_attention, std::move(idle)};
}

}  // namespace viaduct
