#pragma once
// A precision recipe maps the roles that tensors play in training to number formats. Layers and the
// optimizer ask it by role and never name a format themselves.

#include <string>
#include <string_view>
#include <vector>

#include "tensor/state_formats.h"

namespace viaduct {

struct PrecisionRecipe {
  std::string name;
  DType weight = DType::f32;         // canonical weights that the GEMMs read
  DType activation = DType::f32;     // everything between ops but the residual stream
  DType stream = DType::f32;         // residual stream and its gradient
  DType main_gradient = DType::f32;  // what weight gradients accumulate in
  // What the optimizer reads and keeps. Masters, moments: also in the formats of
  // tensor/state_formats.h (f16 masters are scaled, i16 are remainders of BF16 weights).
  DType optimizer_gradient = DType::f32;  // bf16: main gradients as they are, if they are that
  DType master = DType::f32;              // what the optimizer updates
  DType first_moment = DType::f32;        // Adam's running means
  DType second_moment = DType::f32;
  DType statistic = DType::f32;  // row statistics: norm, softmax, loss
  bool loss_scaling = false;     // dynamic loss scale (the activation format has a narrow exponent)

  /// True where the stored weights are themselves what the optimizer updates.
  bool master_is_weight() const {
    return weight == master && (master == DType::f32 || master == DType::f64);
  }
  /// True where groups of elements of the optimizer's state share a scale.
  bool scaled_state() const {
    return has_state_scales(master) || has_state_scales(first_moment) ||
           has_state_scales(second_moment);
  }
};

/// "fp32", "bf16_mixed", "fp16_mixed", and "fp64" (for gradient checks). ConfigError with the
/// nearest name otherwise. The residual stream has the format of activations; with `fp32_residual`
/// at least FP32.
PrecisionRecipe precision_recipe(std::string_view name, bool fp32_residual = false);
std::vector<std::string> precision_recipe_names();

}  // namespace viaduct
