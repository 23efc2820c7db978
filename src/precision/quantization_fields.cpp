#include "precision/quantization_fields.h"

namespace viaduct {
namespace {

Scaling scaling(const PrecisionConfig& config) {
  return precision_recipe(config).products.scaling;
}

bool has_fp8(const PrecisionConfig& config) {
  return scaling(config) != Scaling::none && scaling(config) != Scaling::nvfp4;
}

/// Whether operands have one scale a tensor, from a history of magnitudes or from its own.
bool scales_tensors(const PrecisionConfig& config, bool from_history) {
  const PrecisionRecipe recipe = precision_recipe(config);
  return recipe.products.scaling == Scaling::tensor &&
         (recipe.amax.source == AmaxSource::history) == from_history;
}

/// Whether the blocks at both ends have the products of the others.
bool no_plain_ends(const PrecisionConfig& config) {
  const PrecisionRecipe recipe = precision_recipe(config);
  return recipe.plain_blocks_at_start == 0 && recipe.plain_blocks_at_end == 0 &&
         !config.first_last_layers_bf16.value_or(false);
}

/// Scales of whole tensors, and the settings that depend on them.
void add_amax_fields(FieldGroup& group, PrecisionConfig& config) {
  const auto no_history = [&config] { return !scales_tensors(config, true); };
  constexpr const char* kNoHistory = "scales have no history: fp8_recipe is not delayed";
  group
      .field("fp8_local_amax", config.fp8_local_amax,
             "The largest magnitude is taken over the part of a tensor that a rank multiplies, as "
             "in Megatron: no maximum over ranks except for rows that tensor ranks gather, and "
             "results depend on the layout. false: over the whole tensor of a micro-batch.")
      .constraint("fp8_recipe=tensorwise")
      .idle([&config] { return !scales_tensors(config, false); },
            "no scale is made from the tensor itself: fp8_recipe is not tensorwise");
  group
      .field("tp_only_amax_red", config.tp_only_amax_red,
             "Maxima of a step are reduced over tensor and context ranks alone: data ranks have "
             "scales of their own, and a checkpoint stores the largest. false: over data ranks as "
             "well.")
      .constraint("fp8_recipe=delayed")
      .idle(no_history, kNoHistory);
  group.field("fp8_margin", config.fp8_margin, "Scales leave a margin of this many powers of two.")
      .range(0, 64)
      .constraint("fp8_recipe=delayed")
      .idle(no_history, kNoHistory);
  group
      .field("fp8_amax_history_len", config.fp8_amax_history_len,
             "Steps whose largest magnitudes are kept for each tensor. null: what the recipe says, "
             "else 1.")
      .range(1, 1 << 20)
      .in("steps")
      .constraint("fp8_recipe=delayed")
      .idle(no_history, kNoHistory);
  group
      .field("fp8_amax_compute_algo", config.fp8_amax_compute_algo,
             "The magnitude of the history that gives the scale: that of the last step, or the "
             "largest. null: what the recipe says, else most_recent.")
      .constraint("fp8_recipe=delayed")
      .idle(no_history, kNoHistory);
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
      .on_resume(resume::free)
      .idle([&config] {
        return reason_if(!has_fp8(config), recipe_without(config, "FP8 products"));
      });
  group
      .field("fp4_param_gather", config.fp4_param_gather,
             "Weights with FP4 products are stored as FP4 codes alone, which are gathered, half a "
             "byte an element. Their scales are made on every rank, from the largest magnitudes of "
             "16 x 16 elements over the data ranks: 1/256 byte an element stored, 4/256 reduced. "
             "No bit of a step changes. Masters stay in FP32.")
      .alias("ddp.fp4_param_gather")
      .constraint("FP4 products (fp4_recipe=nvfp4); ddp.use_distributed_optimizer")
      .on_resume(resume::free)
      .idle([&config] {
        return reason_if(scaling(config) != Scaling::nvfp4, recipe_without(config, "FP4 products"));
      });
  group
      .field("reuse_grad_buf_for_mxfp8_param_ag", config.reuse_grad_buf_for_mxfp8_param_ag,
             "fp8_param_gather with mxfp8: updated weights are written and gathered in 16 bits in "
             "the memory of the gradients, and are dropped once their MXFP8 forms are made.")
      .alias("ddp.reuse_grad_buf_for_mxfp8_param_ag")
      .alias("optimizer.reuse_grad_buf_for_mxfp8_param_ag")
      .constraint(
          "fp8_recipe=mxfp8 with fp8_param_gather; whole gradients on each rank; not with "
          "overlap_param_gather_with_optimizer_step")
      .on_resume(resume::free)
      .idle([&config] { return scaling(config) != Scaling::mx; },
            "the products are not those of MXFP8")
      .idle([&config] { return !config.fp8_param_gather; },
            "mixed_precision.fp8_param_gather is not true");
}

}  // namespace

void add_quantization_fields(FieldGroup& group, PrecisionConfig& config) {
  const auto plain = [&config] {
    return reason_if(!precision_recipe(config).products.any(),
                     recipe_without(config, "FP8 or FP4 products"));
  };
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
      .constraint("GEMM sizes divisible by 16 (mxfp8: 32)")
      .idle([&config] {
        return reason_if(!has_fp8(config), recipe_without(config, "FP8 products"));
      });
  group
      .field("fp4", config.fp4,
             "FP4 operands in the linear layers of blocks: e2m1. null: what the recipe says.")
      .constraint("recipe of BF16 or FP16 weights; excludes fp8");
  group
      .field("fp4_recipe", config.fp4_recipe,
             "Scales of FP4 operands. nvfp4: E4M3 for 16 elements along the contracted dim, 16 x "
             "16 of weights, beside one FP32 scale for the tensor; gradients are rounded "
             "stochastically, operands of weight gradients rotated in runs of 16 tokens.")
      .constraint("GEMM sizes divisible by 16")
      .idle([&config] {
        return reason_if(scaling(config) != Scaling::nvfp4, recipe_without(config, "FP4 products"));
      });
  group
      .field("fp8_wgrad", config.fp8_wgrad,
             "Products of weight gradients read FP8 or FP4 operands too; false: they stay in 16 "
             "bits.")
      .idle(plain);
  group
      .field("fp8_dot_product_attention", config.fp8_dot_product_attention,
             "Attention's products in FP8, in blocks with FP8 products: queries, keys, values and "
             "probabilities in E4M3, the gradient of the output as gradients, those of scores in "
             "E5M2. They are kept, and context ranks send them, as FP8. Generation with cached "
             "keys stays in 16 bits.")
      .constraint("fp8_recipe=tensorwise or delayed; attention_backend=flash")
      .idle(plain);
  group
      .field("fp8_multi_head_attention", config.fp8_multi_head_attention,
             "Attention's output leaves it in FP8, rounded once, as the operand of the projection: "
             "there is none in 16 bits.")
      .constraint("fp8_dot_product_attention; fp8_wgrad")
      .idle(plain);
  add_amax_fields(group, config);
  group
      .field("first_last_layers_bf16", config.first_last_layers_bf16,
             "The first and the last blocks of the model have no FP8 or FP4 products. null: what "
             "the recipe says.")
      .idle(plain);
  group
      .field("layers_in_bf16", config.layers_in_bf16,
             "Linear layers without FP8 or FP4 products, by names in their path: blocks.3, "
             "mlp.down, blocks.0.attention.qkv.")
      .idle(plain);
  group
      .field("num_layers_at_start_in_bf16", config.num_layers_at_start_in_bf16,
             "Number of these blocks at the start. null: what the recipe says, else 1.")
      .range(0)
      .in("layers")
      .constraint("at most num_layers / pipeline_model_parallel_size")
      .idle(plain)
      .idle([&config] { return no_plain_ends(config); },
            "mixed_precision.first_last_layers_bf16 is not true");
  group
      .field("num_layers_at_end_in_bf16", config.num_layers_at_end_in_bf16,
             "Number of these blocks at the end. null: what the recipe says, else 1.")
      .range(0)
      .in("layers")
      .constraint("at most num_layers / pipeline_model_parallel_size")
      .idle(plain)
      .idle([&config] { return no_plain_ends(config); },
            "mixed_precision.first_last_layers_bf16 is not true");
}

}  // namespace viaduct
