#include "precision/recipe.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace viaduct {

namespace {

/// bf16_mixed or fp16_mixed with FP8 products (Megatron-Bridge, training/mixed_precision.py).
struct Fp8Recipe {
  std::string_view name, base;
  Fp8Elements fp8;
  Fp8Scaling fp8_recipe;
  int64_t plain_blocks = 0;  // at the start, and as many at the end
};
constexpr auto kHybrid = Fp8Elements::hybrid;
constexpr Fp8Recipe kFp8Recipes[] = {
    {"bf16_with_fp8_delayed_scaling_mixed", "bf16_mixed", kHybrid, Fp8Scaling::delayed},
    {"fp16_with_fp8_delayed_scaling_mixed", "fp16_mixed", kHybrid, Fp8Scaling::delayed},
    {"bf16_with_fp8_current_scaling_mixed", "bf16_mixed", kHybrid, Fp8Scaling::tensorwise, 1},
    {"fp16_with_fp8_current_scaling_mixed", "fp16_mixed", kHybrid, Fp8Scaling::tensorwise, 1},
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed", "bf16_mixed", kHybrid,
     Fp8Scaling::tensorwise, 2},
    {"nanov2_bf16_with_fp8_current_scaling_mixed", "bf16_mixed", kHybrid, Fp8Scaling::blockwise, 2},
    {"bf16_with_fp8_subchannel_scaling_mixed", "bf16_mixed", kHybrid, Fp8Scaling::blockwise},
    {"fp16_with_fp8_subchannel_scaling_mixed", "fp16_mixed", kHybrid, Fp8Scaling::blockwise},
    {"bf16_with_mxfp8_mixed", "bf16_mixed", Fp8Elements::e4m3, Fp8Scaling::mxfp8},
    {"fp16_with_mxfp8_mixed", "fp16_mixed", Fp8Elements::e4m3, Fp8Scaling::mxfp8},
};

/// Steps of history of the recipes with delayed scaling, of which the largest magnitude counts.
constexpr int64_t kDelayedSteps = 1024;
/// bf16_mixed with FP4 products.
constexpr std::string_view kNvfp4Recipe = "bf16_with_nvfp4_mixed";

}  // namespace

std::vector<std::string> precision_recipe_names() {
  std::vector<std::string> names{"fp32", "bf16_mixed", "fp16_mixed", "fp64"};
  for (const Fp8Recipe& recipe : kFp8Recipes) names.emplace_back(recipe.name);
  names.emplace_back(kNvfp4Recipe);
  return names;
}

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

PrecisionRecipe precision_recipe(std::string_view name, bool fp32_residual) {
  PrecisionRecipe recipe;
  recipe.name = std::string(name);
  if (name == "fp32") return recipe;
  if (name == "bf16_mixed" || name == "fp16_mixed") {
    recipe.weight = recipe.activation = name == "bf16_mixed" ? DType::bf16 : DType::f16;
    recipe.stream = fp32_residual ? DType::f32 : recipe.activation;
    recipe.loss_scaling = name == "fp16_mixed";
    return recipe;
  }
  if (name == "fp64") {
    recipe.weight = recipe.activation = recipe.stream = recipe.main_gradient = DType::f64;
    recipe.optimizer_gradient = recipe.master = recipe.statistic = DType::f64;
    recipe.first_moment = recipe.second_moment = DType::f64;
    return recipe;
  }
  if (name == kNvfp4Recipe) {
    recipe = precision_recipe("bf16_mixed", fp32_residual);
    recipe.name = std::string(name);
    recipe.products = nvfp4_products();
    return recipe;
  }
  for (const Fp8Recipe& fp8 : kFp8Recipes) {
    if (name != fp8.name) continue;
    recipe = precision_recipe(fp8.base, fp32_residual);
    recipe.name = std::string(name);
    recipe.products = {scaling_of(fp8.fp8_recipe), DType::e4m3, gradient_element(fp8.fp8)};
    if (fp8.fp8_recipe == Fp8Scaling::delayed)
      recipe.amax = {AmaxSource::history, kDelayedSteps, false};
    recipe.plain_blocks_at_start = recipe.plain_blocks_at_end = fp8.plain_blocks;
    return recipe;
  }
  const std::vector<std::string> names = precision_recipe_names();
  std::string built;
  for (const std::string& each : names) built += (built.empty() ? "" : ", ") + each;
  const auto near = nearest_name(name, names);
  fail<ConfigError>("mixed_precision.recipe={}: unknown; {}built are {}", name,
                    near ? fmt::format("did you mean {}? ", *near) : "", built);
}

}  // namespace viaduct
