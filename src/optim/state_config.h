#pragma once
// The fields of section `optimizer` that say in which formats its state is kept, by Megatron's
// names.

#include <string>
#include <vector>

#include "config/field.h"
#include "optim/optimizer_kind.h"
#include "precision/recipe.h"
#include "tensor/format_name.h"

namespace viaduct {

struct StateConfig {
  bool use_precision_aware_optimizer = false;
  NumberFormat main_grads_dtype = NumberFormat::fp32, main_params_dtype = NumberFormat::fp32;
  NumberFormat exp_avg_dtype = NumberFormat::fp32, exp_avg_sq_dtype = NumberFormat::fp32;
  bool store_param_remainders = true;
};

FieldGroup state_fields(StateConfig& config);

/// Sets the formats of gradients that the optimizer reads, masters and moments.
void apply_state_formats(const StateConfig& config, PrecisionRecipe& recipe);

/// Combinations that are not allowed, one text each: formats without use_precision_aware_optimizer,
/// with another optimizer than `adam` and `muon`, or with a recipe whose weights are the masters.
/// `fp32_gradients`: ddp.grad_reduce_in_fp32.
std::vector<std::string> state_problems(const StateConfig& config, OptimizerKind optimizer,
                                        RecipeName recipe, bool fp32_gradients);

}  // namespace viaduct
