#include "precision/precision_config.h"

#include "base/error.h"

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

FieldGroup residual_stream_fields(PrecisionConfig& config) {
  FieldGroup group("model", "");
  group.field("fp32_residual_connection", config.fp32_residual_connection,
              "bf16_mixed, fp16_mixed: the residual stream, its gradient and messages between "
              "pipeline stages are in FP32: 2 more bytes for each value kept at a norm or sent "
              "from stage to stage. No effect with recipes fp32 and fp64.");
  return group;
}

PrecisionRecipe precision_recipe(const PrecisionConfig& config) {
  return precision_recipe(config.recipe, config.fp32_residual_connection);
}

std::string residual_stream_note(const PrecisionConfig& config) {
  const DType without = precision_recipe(config.recipe).stream;
  if (!config.fp32_residual_connection || dtype_bytes(without) < dtype_bytes(DType::f32)) return "";
  return fmt::format(
      "model.fp32_residual_connection=true has no effect: with recipe {} the residual stream is in "
      "{} anyway",
      config.recipe, without == DType::f64 ? "FP64" : "FP32");
}

}  // namespace viaduct
