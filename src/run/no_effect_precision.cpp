// Fields of other folders that a recipe leaves without effect. What it leaves without effect of
// section `mixed_precision` is with those fields (src/precision).

#include <fmt/core.h>

#include "run/no_effect_rules.h"

namespace viaduct {
namespace {

std::string no_remainders(const RunConfig& c, const ConfigOutcome&) {
  const StateConfig& s = c.optimizer_state;
  if (!s.use_precision_aware_optimizer) return "optimizer.use_precision_aware_optimizer = false";
  if (s.main_params_dtype != NumberFormat::fp32)
    return stated("optimizer.main_params_dtype", s.main_params_dtype);
  return reason_if(!has_bf16_weights(c.mixed_precision),
                   recipe_without(c.mixed_precision, "BF16 weights"));
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
                   recipe_without(c.mixed_precision, "FP8 or FP4 products"));
}

std::string not_inspected(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_quantization(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(!c.tensor_inspect.enabled, "tensor_inspect.enabled is not true");
}

std::string frozen_products(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(c.peft.any(),
                   "weights with FP8 or FP4 products are frozen, and adapters have BF16 ones");
}

/// Attention's softmax is FP32 whatever attention_softmax_in_fp32 says.
std::string wide_softmax(const RunConfig& c, const ConfigOutcome&) {
  const auto backend = c.model.attention_backend.value_or(AttentionBackend::flash);
  if (backend != AttentionBackend::unfused)
    return "the softmax inside " + stated("model.attention_backend", backend) + " is FP32";
  return reason_if(dtype_bytes(precision_recipe(c.mixed_precision).activation) >= 4,
                   "activations are no narrower than FP32");
}

std::string same_gradients(const RunConfig& c, const ConfigOutcome&) {
  const RecipeName recipe = c.mixed_precision.recipe;
  return reason_if(recipe == RecipeName::fp32 || recipe == RecipeName::fp64,
                   recipe_without(c.mixed_precision, "narrower weights"));
}

std::string same_base(const RunConfig& c, const ConfigOutcome&) {
  const bool same = c.peft.base_format == BaseFormat::bf16 &&
                    precision_recipe(c.mixed_precision).weight == DType::bf16;
  return reason_if(same, "the recipe's weights are in BF16");
}

}  // namespace

const std::vector<NoEffectRule>& precision_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"mixed_precision.fp8_wgrad"}, frozen_products},
      {{"tensor_inspect.enabled"}, no_quantization},
      {{"tensor_inspect.interval"}, not_inspected},
      {{"optimizer.store_param_remainders"}, no_remainders},
      {{"optimizer.use_precision_aware_optimizer"}, same_state_formats},
      {{"ddp.grad_reduce_in_fp32"}, same_gradients},
      {{"model.attention_softmax_in_fp32"}, wide_softmax},
      {{"peft.base_format"}, same_base},
  };
  return kRules;
}

}  // namespace viaduct
