#pragma once
// Section `mixed_precision`: which recipe maps tensor roles to formats, and FP16's loss scale; and
// the format of the residual stream, in section `model`.

#include <optional>
#include <string>

#include "config/field.h"
#include "precision/recipe.h"

namespace viaduct {

struct PrecisionConfig {
  std::string recipe = "bf16_mixed";
  /// Null: dynamic.
  std::optional<double> loss_scale;
  double initial_loss_scale = 4294967296.0;  // 2^32
  double min_loss_scale = 1;
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
  bool fp32_residual_connection = false;
};

FieldGroup precision_fields(PrecisionConfig& config);
FieldGroup residual_stream_fields(PrecisionConfig& config);

PrecisionRecipe precision_recipe(const PrecisionConfig& config);
/// Message at start if fp32_residual_connection has no effect; empty otherwise.
std::string residual_stream_note(const PrecisionConfig& config);

}  // namespace viaduct
