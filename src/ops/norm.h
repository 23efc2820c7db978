#pragma once
// Normalization over the innermost dim (size H), statistics in FP32 (FP64 for f64).
//   layer norm  y = (x − mean) · rstd · w + b,  rstd = 1 / sqrt(var + eps), var = mean((x − mean)²)
//               (Ba et al. 2016)
//   RMS norm    y = x · rstd · w,               rstd = 1 / sqrt(mean(x²) + eps)
//               (Zhang, Sennrich 2019)
// with w = weight + weight_offset (Gemma stores w − 1). x, y, dy, dx: [R, H] or [T, N, H] (per
// head), outer dims strided, dense inside. x, dx_add and dx have one floating dtype; y and dy have
// the same or, if it is f32, a narrower one (an FP32 residual stream with 16-bit activations).
// weight, bias [H] of the dtype of y or f32. mean, rstd: f32 [rows] (f64 for f64).

#include <array>
#include <string_view>

#include "ops/dispatch.h"
#include "ops/produced_forms.h"

namespace viaduct {

enum class NormKind { layer_norm, rms_norm };
/// As settings have them (config/choice.h).
constexpr auto choice_names(NormKind) {
  return std::to_array<std::string_view>({"LayerNorm", "RMSNorm"});
}

struct NormForwardArgs {
  NormKind kind = NormKind::rms_norm;
  Tensor x, weight, bias;  // bias: optional, layer norm only
  Tensor y;                // may be x (in place), in one dtype
  Tensor mean, rstd;       // outputs; mean only for layer norm; both optional (generation)
  double eps = 1e-5;
  double weight_offset = 0;
  ProducedForms forms = {};  // of y [R, H]
};

void norm_forward(OpContext& context, const NormForwardArgs& args);

/// dx = (dx_add +) gradient with respect to x; d_weight, d_bias += (f32, f64 for f64). dx may alias
/// dx_add, and dy in one dtype.
struct NormBackwardArgs {
  NormKind kind = NormKind::rms_norm;
  Tensor dy, x, weight, mean, rstd;
  Tensor dx_add;  // optional: gradient of x from another path (the residual branch)
  Tensor dx;
  Tensor d_weight, d_bias;  // += ; d_bias only with a bias
  double weight_offset = 0;
};

void norm_backward(OpContext& context, const NormBackwardArgs& args);

}  // namespace viaduct
