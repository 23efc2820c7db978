// Fields of number formats that have no effect.

#include <fmt/core.h>

#include "run/no_effect_rules.h"

namespace viaduct {
namespace {

/// "mixed_precision.recipe = fp32 has no loss scale".
std::string recipe_without(const RunConfig& c, std::string_view what) {
  return fmt::format("mixed_precision.recipe = {} has no {}", choice_name(c.mixed_precision.recipe),
                     what);
}

std::string no_loss_scale(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(!has_loss_scale(c.mixed_precision), recipe_without(c, "loss scale"));
}

std::string no_dynamic_loss_scale(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_loss_scale(c, outcome);
  return reason.empty() ? reason_if(c.mixed_precision.loss_scale.has_value(),
                                    "mixed_precision.loss_scale makes it constant")
                        : reason;
}

std::string no_remainders(const RunConfig& c, const ConfigOutcome&) {
  const StateConfig& s = c.optimizer_state;
  if (!s.use_precision_aware_optimizer) return "optimizer.use_precision_aware_optimizer = false";
  if (s.main_params_dtype != NumberFormat::fp32)
    return stated("optimizer.main_params_dtype", s.main_params_dtype);
  return reason_if(!has_bf16_weights(c.mixed_precision), recipe_without(c, "BF16 weights"));
}

std::string same_state_formats(const RunConfig& c, const ConfigOutcome& outcome) {
  const StateConfig& s = c.optimizer_state;
  for (const NumberFormat format :
       {s.main_grads_dtype, s.main_params_dtype, s.exp_avg_dtype, s.exp_avg_sq_dtype})
    if (format != NumberFormat::fp32) return "";
  if (!s.store_param_remainders)
    return "every format is fp32, and optimizer.store_param_remainders = false";
  const std::string reason = no_remainders(c, outcome);
  return reason_if(!reason.empty(), "every format is fp32, and " + reason);
}

std::string no_quantization(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(!precision_recipe(c.mixed_precision).products.any(),
                   recipe_without(c, "FP8 or FP4 products"));
}

std::string no_quantized_weight_gradients(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(c.peft.any(),
                   "weights with FP8 or FP4 products are frozen, and adapters have BF16 ones");
}

std::string no_fp8(const RunConfig& c, const ConfigOutcome&) {
  const Scaling scaling = precision_recipe(c.mixed_precision).products.scaling;
  return reason_if(scaling == Scaling::none || scaling == Scaling::nvfp4,
                   recipe_without(c, "FP8 products"));
}

std::string not_gathered_for_mx(const RunConfig& c, const ConfigOutcome&) {
  const Scaling scaling = precision_recipe(c.mixed_precision).products.scaling;
  if (scaling != Scaling::mx) return "the products are not those of MXFP8";
  return reason_if(!c.mixed_precision.fp8_param_gather,
                   "mixed_precision.fp8_param_gather is not true");
}

std::string no_own_amax(const RunConfig& c, const ConfigOutcome&) {
  const PrecisionRecipe recipe = precision_recipe(c.mixed_precision);
  return reason_if(
      recipe.products.scaling != Scaling::tensor || recipe.amax.source == AmaxSource::history,
      "no scale is made from the tensor itself: fp8_recipe is not tensorwise");
}

std::string no_history(const RunConfig& c, const ConfigOutcome&) {
  const PrecisionRecipe recipe = precision_recipe(c.mixed_precision);
  return reason_if(
      recipe.products.scaling != Scaling::tensor || recipe.amax.source != AmaxSource::history,
      "scales have no history: fp8_recipe is not delayed");
}

std::string no_fp4(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(precision_recipe(c.mixed_precision).products.scaling != Scaling::nvfp4,
                   recipe_without(c, "FP4 products"));
}

std::string not_inspected(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(!c.tensor_inspect.enabled, "tensor_inspect.enabled is not true");
}

std::string no_plain_ends(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  const PrecisionRecipe recipe = precision_recipe(c.mixed_precision);
  return reason_if(recipe.plain_blocks_at_start == 0 && recipe.plain_blocks_at_end == 0 &&
                       !c.mixed_precision.first_last_layers_bf16.value_or(false),
                   "mixed_precision.first_last_layers_bf16 is not true");
}

}  // namespace

const std::vector<NoEffectRule>& precision_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"mixed_precision.fp8_recipe", "mixed_precision.fp8_param_gather"}, no_fp8},
      {{"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag"}, not_gathered_for_mx},
      {{"mixed_precision.fp8_dot_product_attention", "mixed_precision.fp8_multi_head_attention"},
       no_quantization},
      {{"mixed_precision.fp4_recipe", "mixed_precision.fp4_param_gather"}, no_fp4},
      {{"mixed_precision.fp8_wgrad"}, no_quantized_weight_gradients},
      {{"mixed_precision.first_last_layers_bf16", "mixed_precision.layers_in_bf16",
        "tensor_inspect.enabled"},
       no_quantization},
      {{"tensor_inspect.interval"}, not_inspected},
      {{"mixed_precision.fp8_local_amax"}, no_own_amax},
      {{"mixed_precision.tp_only_amax_red", "mixed_precision.fp8_margin",
        "mixed_precision.fp8_amax_history_len", "mixed_precision.fp8_amax_compute_algo"},
       no_history},
      {{"mixed_precision.num_layers_at_start_in_bf16", "mixed_precision.num_layers_at_end_in_bf16"},
       no_plain_ends},
      {{"optimizer.store_param_remainders"}, no_remainders},
      {{"optimizer.use_precision_aware_optimizer"}, same_state_formats},
      {{"ddp.grad_reduce_in_fp32"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const RecipeName recipe = c.mixed_precision.recipe;
         return reason_if(recipe == RecipeName::fp32 || recipe == RecipeName::fp64,
                          recipe_without(c, "narrower weights"));
       }},
      {{"mixed_precision.loss_scale"}, no_loss_scale},
      {{"mixed_precision.initial_loss_scale", "mixed_precision.min_loss_scale",
        "mixed_precision.loss_scale_window", "mixed_precision.hysteresis"},
       no_dynamic_loss_scale},
  };
  return kRules;
}

}  // namespace viaduct
