#include "optim/state_config.h"

#include <fmt/format.h>

#include <utility>

#include "precision/recipe.h"

namespace viaduct {
namespace {
constexpr std::string_view kStateFormat =
    "the optimizer's state is converted to the new formats, and steps round differently";
/// Of moments.
constexpr std::initializer_list<NumberFormat> kMoments{NumberFormat::fp32, NumberFormat::fp16,
                                                       NumberFormat::bf16, NumberFormat::fp8};

}  // namespace

FieldGroup state_fields(StateConfig& config) {
  FieldGroup group("optimizer", "");
  group.on_resume(resume::said(kStateFormat));
  group
      .field("use_precision_aware_optimizer", config.use_precision_aware_optimizer,
             "The formats of the optimizer's state can be chosen separately; masters of BF16 "
             "weights are kept as remainders (store_param_remainders).")
      .constraint("needs optimizer=adam or muon");
  group
      .field("main_grads_dtype", config.main_grads_dtype,
             "Format in which the optimizer reads main gradients. bf16: straight from a BF16 "
             "buffer, without an FP32 copy of this rank's shard.")
      .one_of({NumberFormat::fp32, NumberFormat::bf16})
      .constraint(
          "bf16 needs use_precision_aware_optimizer, mixed_precision.recipe=bf16_mixed and "
          "ddp.grad_reduce_in_fp32=false");
  group
      .field("main_params_dtype", config.main_params_dtype,
             "Format of masters. fp16: with a scale for each 64 elements.")
      .one_of({NumberFormat::fp32, NumberFormat::fp16})
      .constraint("fp16 needs use_precision_aware_optimizer and weights narrower than FP32");
  group
      .field("exp_avg_dtype", config.exp_avg_dtype,
             "Format of Adam's mean of gradients, and of muon's momentum. fp16, fp8 (E4M3): with a "
             "scale for each 64 elements.")
      .one_of(kMoments)
      .constraint("other than fp32 needs use_precision_aware_optimizer");
  group
      .field("exp_avg_sq_dtype", config.exp_avg_sq_dtype,
             "Format of Adam's mean of squared gradients; as exp_avg_dtype.")
      .one_of(kMoments)
      .constraint("other than fp32 needs use_precision_aware_optimizer");
  group.field("store_param_remainders", config.store_param_remainders,
              "With use_precision_aware_optimizer, BF16 weights and FP32 masters: of a master only "
              "the low 16 bits are kept, beside the weight, which is its upper half: 2 bytes a "
              "parameter less, and no bit of the master is lost.");
  return group;
}

void apply_state_formats(const StateConfig& config, PrecisionRecipe& recipe) {
  if (!config.use_precision_aware_optimizer) return;
  recipe.optimizer_gradient = format_dtype(config.main_grads_dtype);
  recipe.first_moment = format_dtype(config.exp_avg_dtype);
  recipe.second_moment = format_dtype(config.exp_avg_sq_dtype);
  if (config.main_params_dtype == NumberFormat::fp16) {
    recipe.master = DType::f16;
  } else if (recipe.weight == DType::bf16 && config.store_param_remainders) {
    recipe.master = DType::i16;
  }
}

std::vector<std::string> state_problems(const StateConfig& config, OptimizerKind optimizer,
                                        RecipeName recipe, bool fp32_gradients) {
  std::vector<std::string> problems;
  const auto add = [&]<class... T>(fmt::format_string<T...> text, T&&... values) {
    problems.push_back(fmt::format(text, std::forward<T>(values)...));
  };
  const std::pair<const char*, NumberFormat> formats[] = {
      {"main_grads_dtype", config.main_grads_dtype},
      {"main_params_dtype", config.main_params_dtype},
      {"exp_avg_dtype", config.exp_avg_dtype},
      {"exp_avg_sq_dtype", config.exp_avg_sq_dtype}};
  if (!config.use_precision_aware_optimizer) {
    for (const auto& [name, value] : formats) {
      if (value != NumberFormat::fp32)
        add("optimizer.{}: {} needs use_precision_aware_optimizer=true", name, choice_name(value));
    }
    return problems;
  }
  if (optimizer != OptimizerKind::adam && optimizer != OptimizerKind::muon) {
    add("optimizer.use_precision_aware_optimizer: true needs optimizer=adam or muon, found {}",
        choice_name(optimizer));
  }
  if (recipe == RecipeName::fp64) {
    add("optimizer.use_precision_aware_optimizer: true, but all state of "
        "mixed_precision.recipe=fp64 is FP64");
  }
  if (config.main_params_dtype == NumberFormat::fp16 && recipe == RecipeName::fp32) {
    add("optimizer.main_params_dtype: fp16, but the weights of mixed_precision.recipe=fp32 are "
        "their own masters, in FP32");
  }
  if (config.main_grads_dtype == NumberFormat::bf16 &&
      (precision_recipe(recipe).weight != DType::bf16 || fp32_gradients)) {
    add("optimizer.main_grads_dtype: bf16 needs BF16 main gradients: "
        "a mixed_precision.recipe with BF16 weights and ddp.grad_reduce_in_fp32=false, found {} "
        "and {}",
        choice_name(recipe), fp32_gradients);
  }
  return problems;
}

}  // namespace viaduct
