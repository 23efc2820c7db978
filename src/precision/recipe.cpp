#include "precision/recipe.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/choice.h"

namespace viaduct {

namespace {

/// bf16_mixed or fp16_mixed with FP8 products (Megatron-Bridge, training/mixed_precision.py).
struct Fp8Recipe {
  RecipeName name, base;
  Fp8Elements fp8;
  Fp8Scaling fp8_recipe;
  int64_t plain_blocks = 0;  // at the start, and as many at the end
};
constexpr auto kHybrid = Fp8Elements::hybrid;
constexpr Fp8Recipe kFp8Recipes[] = {
    {RecipeName::bf16_with_fp8_delayed_scaling_mixed, RecipeName::bf16_mixed, kHybrid,
     Fp8Scaling::delayed},
    {RecipeName::fp16_with_fp8_delayed_scaling_mixed, RecipeName::fp16_mixed, kHybrid,
     Fp8Scaling::delayed},
    {RecipeName::bf16_with_fp8_current_scaling_mixed, RecipeName::bf16_mixed, kHybrid,
     Fp8Scaling::tensorwise, 1},
    {RecipeName::fp16_with_fp8_current_scaling_mixed, RecipeName::fp16_mixed, kHybrid,
     Fp8Scaling::tensorwise, 1},
    {RecipeName::nemotron_h_bf16_with_fp8_current_scaling_mixed, RecipeName::bf16_mixed, kHybrid,
     Fp8Scaling::tensorwise, 2},
    {RecipeName::nanov2_bf16_with_fp8_current_scaling_mixed, RecipeName::bf16_mixed, kHybrid,
     Fp8Scaling::blockwise, 2},
    {RecipeName::bf16_with_fp8_subchannel_scaling_mixed, RecipeName::bf16_mixed, kHybrid,
     Fp8Scaling::blockwise},
    {RecipeName::fp16_with_fp8_subchannel_scaling_mixed, RecipeName::fp16_mixed, kHybrid,
     Fp8Scaling::blockwise},
    {RecipeName::bf16_with_mxfp8_mixed, RecipeName::bf16_mixed, Fp8Elements::e4m3,
     Fp8Scaling::mxfp8},
    {RecipeName::fp16_with_mxfp8_mixed, RecipeName::fp16_mixed, Fp8Elements::e4m3,
     Fp8Scaling::mxfp8},
};

/// Steps of history of the recipes with delayed scaling, of which the largest magnitude counts.
constexpr int64_t kDelayedSteps = 1024;

}  // namespace

Scaling scaling_of(Fp8Scaling fp8_recipe) {
  switch (fp8_recipe) {
    case Fp8Scaling::tensorwise:
    case Fp8Scaling::delayed:
      return Scaling::tensor;
    case Fp8Scaling::blockwise:
      return Scaling::blocks;
    case Fp8Scaling::mxfp8:
      return Scaling::mx;
  }
  return Scaling::none;
}

DType gradient_element(Fp8Elements fp8) {
  return fp8 == Fp8Elements::hybrid ? DType::e5m2 : DType::e4m3;
}

Quantization nvfp4_products() {
  return {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2};
}

bool PrecisionRecipe::is_plain_layer(std::string_view path) const {
  const std::string whole = "." + std::string(path) + ".";
  return std::ranges::any_of(plain_layers, [&](const std::string& layer) {
    return whole.find("." + layer + ".") != std::string::npos;
  });
}

PrecisionRecipe precision_recipe(RecipeName name, bool fp32_residual) {
  PrecisionRecipe recipe;
  recipe.name = choice_name(name);
  if (name == RecipeName::fp32) return recipe;
  if (name == RecipeName::bf16_mixed || name == RecipeName::fp16_mixed) {
    const bool fp16 = name == RecipeName::fp16_mixed;
    recipe.weight = recipe.activation = fp16 ? DType::f16 : DType::bf16;
    recipe.stream = fp32_residual ? DType::f32 : recipe.activation;
    recipe.loss_scaling = fp16;
    return recipe;
  }
  if (name == RecipeName::fp64) {
    recipe.weight = recipe.activation = recipe.stream = recipe.main_gradient = DType::f64;
    recipe.optimizer_gradient = recipe.master = recipe.statistic = DType::f64;
    recipe.first_moment = recipe.second_moment = DType::f64;
    return recipe;
  }
  if (name == RecipeName::bf16_with_nvfp4_mixed) {
    recipe = precision_recipe(RecipeName::bf16_mixed, fp32_residual);
    recipe.name = choice_name(name);
    recipe.products = nvfp4_products();
    return recipe;
  }
  for (const Fp8Recipe& fp8 : kFp8Recipes) {
    if (name != fp8.name) continue;
    recipe = precision_recipe(fp8.base, fp32_residual);
    recipe.name = choice_name(name);
    recipe.products = {scaling_of(fp8.fp8_recipe), DType::e4m3, gradient_element(fp8.fp8)};
    if (fp8.fp8_recipe == Fp8Scaling::delayed)
      recipe.amax = {AmaxSource::history, kDelayedSteps, false};
    recipe.plain_blocks_at_start = recipe.plain_blocks_at_end = fp8.plain_blocks;
  }
  return recipe;
}

PrecisionRecipe precision_recipe(std::string_view name, bool fp32_residual) {
  if (const auto known = choice_of<RecipeName>(name))
    return precision_recipe(*known, fp32_residual);
  const std::vector<std::string> names = all_choices<RecipeName>();
  std::string built;
  for (const std::string& each : names) built += (built.empty() ? "" : ", ") + each;
  const auto near = nearest_name(name, names);
  fail<ConfigError>("mixed_precision.recipe={}: unknown; {}built are {}", name,
                    near ? fmt::format("did you mean {}? ", *near) : "", built);
}

}  // namespace viaduct
