#include "precision/precision_config.h"
#include "run/validate_parallel.h"

namespace viaduct {

void validate_attention_backend(const RunConfig& config, Problems& problems) {
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

}  // namespace viaduct
