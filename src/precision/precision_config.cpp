#include "precision/precision_config.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

namespace {

/// Scales of whole tensors, and the settings that depend on them.
void add_amax_fields(PrecisionConfig& config, FieldGroup& group) {
  group
      .field("fp8_local_amax", config.fp8_local_amax,
             "The largest magnitude is taken over the part of a tensor that a rank multiplies, as "
             "in Megatron: no maximum over ranks except for rows that tensor ranks gather, and "
             "results depend on the layout. false: over the whole tensor of a micro-batch.")
      .constraint("fp8_recipe=tensorwise");
  group
      .field("tp_only_amax_red", config.tp_only_amax_red,
             "Maxima of a step are reduced over tensor and context ranks alone: data ranks have "
             "scales of their own, and a checkpoint stores the largest. false: over data ranks as "
             "well.")
      .constraint("fp8_recipe=delayed");
  group.field("fp8_margin", config.fp8_margin, "Scales leave a margin of this many powers of two.")
      .range(0, 64)
      .constraint("fp8_recipe=delayed");
  group
      .field("fp8_amax_history_len", config.fp8_amax_history_len,
             "Steps whose largest magnitudes are kept for each tensor. null: what the recipe says, "
             "else 1.")
      .range(1, 1 << 20)
      .in("steps")
      .constraint("fp8_recipe=delayed");
  group
      .field("fp8_amax_compute_algo", config.fp8_amax_compute_algo,
             "The magnitude of the history that gives the scale: that of the last step, or the "
             "largest. null: what the recipe says, else most_recent.")
      .constraint("fp8_recipe=delayed");
  group
      .field(
          "fp8_param_gather", config.fp8_param_gather,
          "Weights with FP8 products are stored in FP8 alone. tensorwise, delayed: as codes with "
          "one scale each, which are gathered, 1 byte an element. mxfp8: as the two forms that "
          "products read, made from weights that are gathered in 16 bits through the memory of "
          "gradients. No bit of a step changes. Masters stay in FP32.")
      .alias("fp8_param")
      .alias("fp8_params")
      .alias("ddp.fp8_param_gather")
      .constraint(
          "fp8_recipe=tensorwise, delayed, or mxfp8 with reuse_grad_buf_for_mxfp8_param_ag; "
          "ddp.use_distributed_optimizer")
      .on_resume(resume::free);
  group
      .field("fp4_param_gather", config.fp4_param_gather,
             "Weights with FP4 products are stored as FP4 codes alone, which are gathered, half a "
             "byte an element. Their scales are made on every rank, from the largest magnitudes of "
             "16 x 16 elements over the data ranks: 1/256 byte an element stored, 4/256 reduced. "
             "No bit of a step changes. Masters stay in FP32.")
      .alias("ddp.fp4_param_gather")
      .constraint("FP4 products (fp4_recipe=nvfp4); ddp.use_distributed_optimizer")
      .on_resume(resume::free);
  group
      .field("reuse_grad_buf_for_mxfp8_param_ag", config.reuse_grad_buf_for_mxfp8_param_ag,
             "fp8_param_gather with mxfp8: updated weights are written and gathered in 16 bits in "
             "the memory of the gradients, and are dropped once their MXFP8 forms are made.")
      .alias("ddp.reuse_grad_buf_for_mxfp8_param_ag")
      .alias("optimizer.reuse_grad_buf_for_mxfp8_param_ag")
      .constraint(
          "fp8_recipe=mxfp8 with fp8_param_gather; whole gradients on each rank; not with "
          "overlap_param_gather_with_optimizer_step")
      .on_resume(resume::free);
}

void add_quantization_fields(PrecisionConfig& config, FieldGroup& group) {
  group
      .field("fp8", config.fp8,
             "FP8 operands in the linear layers of blocks. e4m3: all of them; hybrid: gradients in "
             "E5M2. null: what the recipe says.")
      .constraint("recipe of BF16 or FP16 weights");
  group
      .field("fp8_recipe", config.fp8_recipe,
             "Scales of FP8 operands. tensorwise: one FP32 scale from the largest magnitude of the "
             "tensor over the tensor and context ranks of a micro-batch. delayed: the same from "
             "magnitudes of earlier steps. blockwise: powers of two "
             "for 128 elements of activations and gradients, 128 x 128 of weights. mxfp8: E8M0 for "
             "32 elements along the contracted dim. null: what the recipe says, else tensorwise.")
      .constraint("GEMM sizes divisible by 16 (mxfp8: 32)");
  group
      .field("fp4", config.fp4,
             "FP4 operands in the linear layers of blocks: e2m1. null: what the recipe says.")
      .constraint("recipe of BF16 or FP16 weights; excludes fp8");
  group
      .field("fp4_recipe", config.fp4_recipe,
             "Scales of FP4 operands. nvfp4: E4M3 for 16 elements along the contracted dim, 16 x "
             "16 of weights, beside one FP32 scale for the tensor; gradients are rounded "
             "stochastically, operands of weight gradients rotated in runs of 16 tokens.")
      .constraint("GEMM sizes divisible by 16");
  group.field("fp8_wgrad", config.fp8_wgrad,
              "Products of weight gradients read FP8 or FP4 operands too; false: they stay in 16 "
              "bits.");
  group
      .field("fp8_dot_product_attention", config.fp8_dot_product_attention,
             "Attention's products in FP8, in blocks with FP8 products: queries, keys, values and "
             "probabilities in E4M3, the gradient of the output as gradients, those of scores in "
             "E5M2. They are kept, and context ranks send them, as FP8. Generation with cached "
             "keys stays in 16 bits.")
      .constraint("fp8_recipe=tensorwise or delayed; attention_backend=flash");
  group
      .field("fp8_multi_head_attention", config.fp8_multi_head_attention,
             "Attention's output leaves it in FP8, rounded once, as the operand of the projection: "
             "there is none in 16 bits.")
      .constraint("fp8_dot_product_attention; fp8_wgrad");
  add_amax_fields(config, group);
  group.field("first_last_layers_bf16", config.first_last_layers_bf16,
              "The first and the last blocks of the model have no FP8 or FP4 products. null: what "
              "the recipe says.");
  group.field("layers_in_bf16", config.layers_in_bf16,
              "Linear layers without FP8 or FP4 products, by names in their path: blocks.3, "
              "mlp.down, blocks.0.attention.qkv.");
  group
      .field("num_layers_at_start_in_bf16", config.num_layers_at_start_in_bf16,
             "Number of these blocks at the start. null: what the recipe says, else 1.")
      .range(0)
      .in("layers")
      .constraint("at most num_layers / pipeline_model_parallel_size");
  group
      .field("num_layers_at_end_in_bf16", config.num_layers_at_end_in_bf16,
             "Number of these blocks at the end. null: what the recipe says, else 1.")
      .range(0)
      .in("layers")
      .constraint("at most num_layers / pipeline_model_parallel_size");
}

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
      .on_resume(resume::free);
  group.field("initial_loss_scale", config.initial_loss_scale, "Dynamic loss scale at the start.")
      .range(1)
      .constraint("at least min_loss_scale")
      .on_resume(resume::free);
  group
      .field("min_loss_scale", config.min_loss_scale,
             "The dynamic loss scale never falls below this.")
      .positive()
      .on_resume(resume::free);
  group
      .field("loss_scale_window", config.loss_scale_window,
             "Steps in a row without overflow after which the loss scale doubles.")
      .range(1)
      .in("steps")
      .on_resume(resume::free);
  group.field("hysteresis", config.hysteresis, "Overflows after which the loss scale is halved.")
      .range(1)
      .on_resume(resume::free);
  add_quantization_fields(config, group);
  return group;
}

FieldGroup residual_stream_fields(PrecisionConfig& config) {
  FieldGroup group("model", "");
  group
      .field("fp32_residual_connection", config.fp32_residual_connection,
             "bf16_mixed, fp16_mixed: the residual stream, its gradient and messages between "
             "pipeline stages are in FP32: 2 more bytes for each value kept at a norm or sent "
             "from stage to stage. No effect with recipes fp32 and fp64.")
      .on_resume(resume::other_rounding);
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

bool has_bf16_weights(const PrecisionConfig& config) {
  return precision_recipe(config.recipe).weight == DType::bf16;
}

bool has_loss_scale(const PrecisionConfig& config) {
  return precision_recipe(config.recipe).loss_scaling;
}

std::string residual_stream_note(const PrecisionConfig& config) {
  const DType without = precision_recipe(config.recipe).stream;
  if (!config.fp32_residual_connection || dtype_bytes(without) < dtype_bytes(DType::f32)) return "";
  return fmt::format(
      "model.fp32_residual_connection=true has no effect: with recipe {} the residual stream is in "
      "{} anyway",
      choice_name(config.recipe), without == DType::f64 ? "FP64" : "FP32");
}

}  // namespace viaduct
