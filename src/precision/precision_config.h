#pragma once
// Section `mixed_precision`: which recipe maps tensor roles to formats, and FP16's loss scale; and
// the format of the residual stream, in section `model`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "precision/recipe.h"

namespace viaduct {

/// Elements and scales of FP4 operands.
enum class Fp4Elements { e2m1 };
constexpr auto choice_names(Fp4Elements) {
  return std::to_array<std::string_view>({"e2m1"});
}
enum class Fp4Scaling { nvfp4 };
constexpr auto choice_names(Fp4Scaling) {
  return std::to_array<std::string_view>({"nvfp4"});
}

/// The magnitude of a history that gives the scale.
enum class AmaxChoice { most_recent, max };
constexpr auto choice_names(AmaxChoice) {
  return std::to_array<std::string_view>({"most_recent", "max"});
}

struct PrecisionConfig {
  RecipeName recipe = RecipeName::bf16_mixed;
  /// Null: dynamic.
  std::optional<double> loss_scale;
  double initial_loss_scale = 4294967296.0;  // 2^32
  double min_loss_scale = 1;
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
  bool fp32_residual_connection = false;
  // FP8 products; null: as the recipe.
  std::optional<Fp8Elements> fp8;
  std::optional<Fp8Scaling> fp8_recipe;
  std::optional<Fp4Elements> fp4;  // null: what the recipe says
  Fp4Scaling fp4_recipe = Fp4Scaling::nvfp4;
  std::vector<std::string> layers_in_bf16;
  bool fp8_wgrad = true;
  bool fp8_dot_product_attention = false, fp8_multi_head_attention = false;
  // Scales of whole tensors.
  bool fp8_local_amax = false, tp_only_amax_red = false;
  int64_t fp8_margin = 0;
  std::optional<int64_t> fp8_amax_history_len;
  std::optional<AmaxChoice> fp8_amax_compute_algo;
  bool fp8_param_gather = false, fp4_param_gather = false;
  bool reuse_grad_buf_for_mxfp8_param_ag = false;
  std::optional<bool> first_last_layers_bf16;
  std::optional<int64_t> num_layers_at_start_in_bf16, num_layers_at_end_in_bf16;
};

FieldGroup precision_fields(PrecisionConfig& config);
FieldGroup residual_stream_fields(PrecisionConfig& config);

PrecisionRecipe precision_recipe(const PrecisionConfig& config);
/// Whether weights are BF16, and whether there is a loss scale.
bool has_bf16_weights(const PrecisionConfig& config);
bool has_loss_scale(const PrecisionConfig& config);
/// "mixed_precision.recipe = fp32 has no loss scale": why a field does nothing.
std::string recipe_without(const PrecisionConfig& config, std::string_view what);

}  // namespace viaduct
