// Recipes of quantized products (section `mixed_precision`), and formats beside them.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/units.h"
#include "hardware/cuda_target.h"
#include "ops/cuda/product_layout.h"
#include "run/rules/product_sizes.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

void validate_plain_blocks(const RunConfig& config, Problems& problems) {
  if (config.model.num_layers.is_auto()) return;
  const int64_t layers = config.model.num_layers.value();
  const int64_t most = layers / config.parallel.pipeline_model_parallel_size;
  const PrecisionRecipe recipe = precision_recipe(config.mixed_precision);
  const auto check = [&](const char* field, int64_t count) {
    if (count <= most) return;
    problems.add(
        "mixed_precision.{}: {} is above model.num_layers / pipeline_model_parallel_size = "
        "{} / {}",
        field, count, layers, config.parallel.pipeline_model_parallel_size);
  };
  check("num_layers_at_start_in_bf16", recipe.plain_blocks_at_start);
  check("num_layers_at_end_in_bf16", recipe.plain_blocks_at_end);
}

/// Why 16-bit weights cannot pass through the memory of gradients, as those of MXFP8 do.
void validate_staged_weights(const RunConfig& config, std::string_view field, Problems& problems) {
  if (!config.mixed_precision.reuse_grad_buf_for_mxfp8_param_ag) {
    problems.add(
        "{} with fp8_recipe = mxfp8 needs mixed_precision.reuse_grad_buf_for_mxfp8_param_ag, which "
        "is false: weights are gathered in 16 bits, and there is no other memory for them",
        field);
  }
  if (config.ddp.shards_gradients()) {
    problems.add(
        "{} with fp8_recipe = mxfp8 needs whole gradients on each rank "
        "(ddp.data_parallel_sharding_strategy = optim), found {}",
        field, choice_name(config.ddp.strategy()));
  }
  if (config.ddp.overlap_param_gather_with_optimizer_step) {
    problems.add(
        "{} with fp8_recipe = mxfp8 excludes optimizer.overlap_param_gather_with_optimizer_step = "
        "true: gradients of later chunks are read while weights would take their memory",
        field);
  }
}

/// Why weights cannot be stored as FP8 or FP4, if the configuration asks for it.
void validate_stored_codes(const RunConfig& config, const PrecisionRecipe& recipe,
                           Problems& problems) {
  if (!recipe.stores_codes) return;
  const std::string_view field = recipe.products.scaling == Scaling::nvfp4
                                     ? "mixed_precision.fp4_param_gather: true"
                                     : "mixed_precision.fp8_param_gather: true";
  if (recipe.products.scaling == Scaling::blocks) {
    problems.add(
        "{} needs one scale for each weight (fp8_recipe = tensorwise or delayed); weights of "
        "fp8_recipe = blockwise are stored and gathered in 16 bits",
        field);
  }
  if (recipe.products.scaling == Scaling::mx) validate_staged_weights(config, field, problems);
  if (!config.ddp.use_distributed_optimizer) {
    problems.add(
        "{} needs ddp.use_distributed_optimizer, which is false: codes are written from shards of "
        "masters",
        field);
  }
  if (config.state_offload.fraction() > 0 || config.offload.moves_weights()) {
    problems.add(
        "{} with masters or weights in a second memory (optimizer.optimizer_cpu_offload, "
        "model.cpu_offloading_weights) is not implemented yet",
        field);
  }
}

/// Why attention cannot be in FP8, if the configuration asks for it.
void validate_fp8_attention(const RunConfig& config, const PrecisionRecipe& recipe,
                            Problems& problems) {
  const PrecisionConfig& given = config.mixed_precision;
  constexpr std::string_view kField = "mixed_precision.fp8_dot_product_attention: true",
                             kOutput = "mixed_precision.fp8_multi_head_attention: true";
  if (given.fp8_multi_head_attention && !given.fp8_dot_product_attention)
    problems.add("{} needs fp8_dot_product_attention, which is false", kOutput);
  if (given.fp8_multi_head_attention && !given.fp8_wgrad) {
    problems.add(
        "{} excludes fp8_wgrad = false: the projection's weight gradient would read attention's "
        "output in 16 bits, which does not exist",
        kOutput);
  }
  if (!given.fp8_dot_product_attention) return;
  if (recipe.products.scaling != Scaling::tensor) {
    problems.add(
        "{} needs one scale for each tensor (fp8_recipe = tensorwise or delayed); groups of {} "
        "would lie along different dims of the same queries, keys and values",
        kField, product_format_name(recipe.products.scaling));
  }
  if (config.model.position_embedding_type.value_or(PositionKind::rotary) ==
      PositionKind::linear_bias) {
    problems.add(
        "{} with model.position_embedding_type = alibi, whose positions stand beside queries and "
        "keys, which have one scale; expected false",
        kField);
  }
  const auto backend = config.model.attention_backend.value_or(AttentionBackend::flash);
  if (backend != AttentionBackend::flash) {
    problems.add("{} needs model.attention_backend = flash, found {}", kField,
                 choice_name(backend));
  }
}

/// FP64 is computed on the cpu alone.
void validate_fp64(const RunConfig& config, const PrecisionRecipe& recipe, Problems& problems) {
  if (!config.cuda_target) return;
  const auto add = [&](std::string_view field, std::string_view nearest) {
    problems.add(
        "{}: fp64 is computed on the cpu alone: a GPU ({}) has no kernels for it; nearest: {}",
        field, cuda_target_name(*config.cuda_target), nearest);
  };
  if (recipe.weight == DType::f64) {
    add("mixed_precision.recipe", "fp32");
  } else if (config.model.moe.experts() > 0 &&
             config.model.moe.moe_router_dtype == NumberFormat::fp64) {
    add("model.moe_router_dtype", "fp32");
  }
}

/// A dry run for a GPU needs products that its generation supports.
void validate_target(const RunConfig& config, const PrecisionRecipe& recipe, Problems& problems) {
  if (!config.cuda_target) return;
  const std::string missing = cuda::missing_products(recipe.products, *config.cuda_target);
  if (missing.empty()) return;
  const bool fp4 = recipe.products.scaling == Scaling::nvfp4;
  problems.add("mixed_precision.{} ({}): {}", fp4 ? "fp4_recipe" : "fp8_recipe",
               product_format_name(recipe.products.scaling), missing);
}

/// Every name of layers_in_bf16 is the name of a linear layer.
void validate_plain_layers(const RunConfig& config, Problems& problems) {
  if (config.model.num_layers.is_auto()) return;
  const auto layers = linear_layers(config.model);
  std::vector<std::string> known;
  for (int64_t block = 0; block < config.model.num_layers.value(); ++block) {
    for (const std::string_view layer : layers)
      known.push_back(fmt::format("blocks.{}.{}", block, layer));
  }
  for (const std::string& name : config.mixed_precision.layers_in_bf16) {
    PrecisionRecipe of_name;
    of_name.plain_layers = {name};
    if (std::ranges::any_of(known, [&](const auto& path) { return of_name.is_plain_layer(path); }))
      continue;
    const auto near = nearest_name(name, known);
    problems.add(
        "mixed_precision.layers_in_bf16: no linear layer of the {} has \"{}\" in its path "
        "blocks.NUMBER.LAYER, where LAYER is one of {}{}",
        counted(config.model.num_layers.value(), "block"), name, fmt::join(layers, ", "),
        near ? fmt::format("; did you mean {}?", *near) : "");
  }
}

/// Whether both FP8 and FP4 products are asked for, which is a problem.
bool asks_for_fp8_and_fp4(const PrecisionConfig& given, Problems& problems) {
  const Quantization named = precision_recipe(given.recipe).products;
  const auto add = [&](const char* field, std::string_view value, const char* format) {
    problems.add(
        "mixed_precision.{}={} excludes recipe={}, which has {} products; nearest: recipe={}",
        field, value, choice_name(given.recipe), format,
        precision_recipe(given.recipe).weight == DType::f16 ? "fp16_mixed" : "bf16_mixed");
    return true;
  };
  if (given.fp4 && (given.fp8 || given.fp8_recipe)) {
    problems.add("mixed_precision.fp4={} excludes {}={}", choice_name(*given.fp4),
                 given.fp8 ? "fp8" : "fp8_recipe",
                 given.fp8 ? choice_name(*given.fp8) : choice_name(*given.fp8_recipe));
    return true;
  }
  if (given.fp8 && named.scaling == Scaling::nvfp4)
    return add("fp8", choice_name(*given.fp8), "FP4");
  const bool named_fp8 = named.any() && named.scaling != Scaling::nvfp4;
  return given.fp4 && named_fp8 && add("fp4", choice_name(*given.fp4), "FP8");
}

std::string frozen_products(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(c.peft.any(),
                   "weights with FP8 or FP4 products are frozen, and adapters have BF16 ones");
}

std::string same_base(const RunConfig& c, const ConfigOutcome&) {
  const bool same = c.peft.base_format == BaseFormat::bf16 &&
                    precision_recipe(c.mixed_precision).weight == DType::bf16;
  return reason_if(same, "the recipe's weights are in BF16");
}

void refuse_precision(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const PrecisionRecipe recipe = precision_recipe(config.mixed_precision);
  const PrecisionConfig& given = config.mixed_precision;
  if (asks_for_fp8_and_fp4(given, problems)) return;
  validate_fp64(config, recipe, problems);
  if (!recipe.products.any()) return;
  if (dtype_bytes(recipe.weight) != 2) {
    problems.add(
        "mixed_precision.{}: {} needs a recipe with BF16 or FP16 weights (bf16_mixed, "
        "fp16_mixed), found {}",
        given.fp4 ? "fp4" : "fp8",
        given.fp4 ? choice_name(*given.fp4) : choice_name_or(given.fp8, ""),
        choice_name(given.recipe));
    return;
  }
  validate_target(config, recipe, problems);
  // A folder that is not read yet may be of a kind of models without such products.
  const bool unread = (config.checkpoint.pretrained_checkpoint || config.model.hf_config) &&
                      config.model.num_layers.is_auto();
  if (!unread) validate_product_sizes(config, problems);
  validate_plain_blocks(config, problems);
  validate_stored_codes(config, recipe, problems);
  validate_fp8_attention(config, recipe, problems);
  validate_plain_layers(config, problems);
}

}  // namespace

Topic precision_topic() {
  std::vector<NoEffectRule> idle{
      {{"mixed_precision.fp8_wgrad"}, frozen_products},
      {{"peft.base_format"}, same_base},
  };
  return {refuse_precision, std::move(idle)};
}

}  // namespace viaduct
