#include "precision/precision_config.h"

#include <algorithm>

#include "base/error.h"
#include "precision/quantization_fields.h"

namespace viaduct {
namespace {

AmaxSettings delayed_amax(AmaxSettings amax) {
  amax.source = AmaxSource::history;
  return amax;
}

/// What the fields of scales of whole tensors say about a recipe with such scales.
void apply_amax_fields(const PrecisionConfig& config, PrecisionRecipe& recipe) {
  if (recipe.products.scaling != Scaling::tensor) return;
  AmaxSettings& amax = recipe.amax;
  if (amax.source != AmaxSource::history) {
    if (config.fp8_local_amax) amax.source = AmaxSource::own;
    return;
  }
  amax.steps = config.fp8_amax_history_len.value_or(amax.steps);
  if (config.fp8_amax_compute_algo)
    amax.most_recent = *config.fp8_amax_compute_algo == AmaxChoice::most_recent;
  amax.margin = config.fp8_margin;
  amax.within_micro_batch = config.tp_only_amax_red;
}

}  // namespace

FieldGroup precision_fields(PrecisionConfig& config) {
  FieldGroup group("mixed_precision",
                   "Number formats of weights, activations, gradients and optimizer state.");
  group.on_resume(resume::other_rounding);
  group.short_form("recipe");
  const auto no_loss_scale = [&config] {
    return reason_if(!has_loss_scale(config), recipe_without(config, "loss scale"));
  };
  const auto constant = [&config] { return config.loss_scale.has_value(); };
  constexpr const char* kConstant = "mixed_precision.loss_scale makes it constant";
  group
      .field("recipe", config.recipe,
             "Formats by tensor role. bf16_mixed: BF16 weights and activations, FP32 inside norm, "
             "softmax and loss, FP32 "
             "main gradients and masters. fp16_mixed: the same with FP16 and a loss scale. fp32, "
             "fp64: one format "
             "(fp64 on the reference kernels, for checks). Names with fp8, mxfp8 or nvfp4: the "
             "products of linear layers inside blocks read FP8 or FP4 operands (docs/numerics.md).")
      .on_resume(resume::said("masters and moments are kept; steps round differently"));
  group.field("loss_scale", config.loss_scale, "Constant loss scale of fp16_mixed; null: dynamic.")
      .positive()
      .on_resume(resume::free)
      .idle(no_loss_scale);
  group.field("initial_loss_scale", config.initial_loss_scale, "Dynamic loss scale at the start.")
      .range(1)
      .constraint("at least min_loss_scale")
      .on_resume(resume::free)
      .idle(no_loss_scale)
      .idle(constant, kConstant);
  group
      .field("min_loss_scale", config.min_loss_scale,
             "The dynamic loss scale never falls below this.")
      .positive()
      .on_resume(resume::free)
      .idle(no_loss_scale)
      .idle(constant, kConstant);
  group
      .field("loss_scale_window", config.loss_scale_window,
             "Steps in a row without overflow after which the loss scale doubles.")
      .range(1)
      .in("steps")
      .on_resume(resume::free)
      .idle(no_loss_scale)
      .idle(constant, kConstant);
  group.field("hysteresis", config.hysteresis, "Overflows after which the loss scale is halved.")
      .range(1)
      .on_resume(resume::free)
      .idle(no_loss_scale)
      .idle(constant, kConstant);
  add_quantization_fields(group, config);
  return group;
}

namespace {

/// Why the residual stream is no narrower than FP32 without fp32_residual_connection, or "".
std::string wide_stream(const PrecisionConfig& config) {
  const DType without = precision_recipe(config.recipe).stream;
  return reason_if(
      dtype_bytes(without) >= dtype_bytes(DType::f32),
      fmt::format("with recipe {} the residual stream is in {} anyway", choice_name(config.recipe),
                  without == DType::f64 ? "FP64" : "FP32"));
}

}  // namespace

FieldGroup residual_stream_fields(PrecisionConfig& config) {
  FieldGroup group("model", "");
  group
      .field("fp32_residual_connection", config.fp32_residual_connection,
             "bf16_mixed, fp16_mixed: the residual stream, its gradient and messages between "
             "pipeline stages are in FP32: 2 more bytes for each value kept at a norm or sent "
             "from stage to stage. No effect with recipes fp32 and fp64.")
      .on_resume(resume::other_rounding)
      .idle([&config] { return wide_stream(config); });
  return group;
}

PrecisionRecipe precision_recipe(const PrecisionConfig& config) {
  PrecisionRecipe recipe = precision_recipe(config.recipe, config.fp32_residual_connection);
  Quantization& products = recipe.products;
  if (config.fp4) products = nvfp4_products();
  if (config.fp8) {
    if (!products.any()) products.scaling = Scaling::tensor;
    products.gradient = gradient_element(*config.fp8);
  }
  if (!products.any()) return recipe;
  if (config.fp8_recipe && products.scaling != Scaling::nvfp4) {
    products.scaling = scaling_of(*config.fp8_recipe);
    recipe.amax =
        *config.fp8_recipe == Fp8Scaling::delayed ? delayed_amax(recipe.amax) : AmaxSettings();
  }
  if (products.scaling != Scaling::tensor) recipe.amax = {};
  recipe.stores_codes =
      products.scaling == Scaling::nvfp4 ? config.fp4_param_gather : config.fp8_param_gather;
  apply_amax_fields(config, recipe);
  products.weight_gradient = config.fp8_wgrad;
  products.attention = config.fp8_dot_product_attention && products.scaling == Scaling::tensor;
  products.attended = config.fp8_multi_head_attention && products.attention;
  recipe.plain_layers = config.layers_in_bf16;
  const bool plain_ends = config.first_last_layers_bf16.value_or(recipe.plain_blocks_at_start > 0);
  const auto count = [&](const std::optional<int64_t>& given, int64_t of_recipe) {
    return plain_ends ? given.value_or(std::max<int64_t>(1, of_recipe)) : 0;
  };
  recipe.plain_blocks_at_start =
      count(config.num_layers_at_start_in_bf16, recipe.plain_blocks_at_start);
  recipe.plain_blocks_at_end = count(config.num_layers_at_end_in_bf16, recipe.plain_blocks_at_end);
  return recipe;
}

std::string recipe_without(const PrecisionConfig& config, std::string_view what) {
  return fmt::format("mixed_precision.recipe = {} has no {}", choice_name(config.recipe), what);
}

bool has_bf16_weights(const PrecisionConfig& config) {
  return precision_recipe(config.recipe).weight == DType::bf16;
}

bool has_loss_scale(const PrecisionConfig& config) {
  return precision_recipe(config.recipe).loss_scaling;
}

}  // namespace viaduct
