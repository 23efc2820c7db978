#pragma once
// Section `mixed_precision`: which recipe maps tensor roles to formats, and FP16's loss scale.

#include <optional>
#include <string>

#include "config/field.h"

namespace viaduct {

struct PrecisionConfig {
  std::string recipe = "bf16_mixed";
  /// Null: dynamic.
  std::optional<double> loss_scale;
  double initial_loss_scale = 4294967296.0;  // 2^32
  double min_loss_scale = 1;
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
};

FieldGroup precision_fields(PrecisionConfig& config);

}  // namespace viaduct
