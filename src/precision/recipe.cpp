#include "precision/recipe.h"

#include "base/error.h"
#include "base/nearest.h"

namespace viaduct {

std::vector<std::string> precision_recipe_names() {
  return {"fp32", "bf16_mixed", "fp16_mixed", "fp64"};
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
  const auto near = nearest_name(name, precision_recipe_names());
  fail<ConfigError>(
      "mixed_precision.recipe={}: unknown; {}built are fp32, bf16_mixed, fp16_mixed, fp64", name,
      near ? fmt::format("did you mean {}? ", *near) : "");
}

}  // namespace viaduct
