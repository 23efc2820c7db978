#include "precision/precision_config.h"

namespace viaduct {

FieldGroup precision_fields(PrecisionConfig& config) {
  FieldGroup group("mixed_precision",
                   "Number formats of weights, activations, gradients and optimizer state.");
  group.short_form("recipe");
  group
      .field("recipe", config.recipe,
             "Formats by tensor role. bf16_mixed: BF16 weights and activations, FP32 inside norm, "
             "softmax and loss, FP32 "
             "main gradients and masters. fp16_mixed: the same with FP16 and a loss scale. fp32, "
             "fp64: one format "
             "(fp64 on the reference kernels, for checks).")
      .one_of({"fp32", "bf16_mixed", "fp16_mixed", "fp64"})
      .planned_values(
          {"bf16_with_fp8_delayed_scaling_mixed", "fp16_with_fp8_delayed_scaling_mixed",
           "bf16_with_fp8_current_scaling_mixed", "fp16_with_fp8_current_scaling_mixed",
           "bf16_with_fp8_subchannel_scaling_mixed", "fp16_with_fp8_subchannel_scaling_mixed",
           "bf16_with_mxfp8_mixed", "fp16_with_mxfp8_mixed", "bf16_with_nvfp4_mixed",
           "nemotron_h_bf16_with_fp8_current_scaling_mixed",
           "nanov2_bf16_with_fp8_current_scaling_mixed"},
          "roadmap 4: FP8 and FP4 recipes");
  group.field("loss_scale", config.loss_scale, "Constant loss scale of fp16_mixed; null: dynamic.")
      .positive();
  group.field("initial_loss_scale", config.initial_loss_scale, "Dynamic loss scale at the start.")
      .range(1)
      .constraint("at least min_loss_scale");
  group
      .field("min_loss_scale", config.min_loss_scale,
             "The dynamic loss scale never falls below this.")
      .positive();
  group
      .field("loss_scale_window", config.loss_scale_window,
             "Steps in a row without overflow after which the loss scale doubles.")
      .range(1)
      .in("steps");
  group
      .field("hysteresis", config.hysteresis,
             "Overflows that it takes to start halving the loss scale.")
      .range(1);
  return group;
}

}  // namespace viaduct
