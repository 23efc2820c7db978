#pragma once
// xIELU, an activation whose slopes are trained (Huang, Schlag 2024, arXiv 2411.13010, equation 9):
//   out = a_p · x² + β x                       for x > 0
//   out = a_n · (expm1(min(x, ε)) − x) + β x   otherwise
// with a_p = softplus(alpha_p), a_n = β + softplus(alpha_n), β = 0.5 and ε = −1e-6. in, out, d_out
// and d_in: [T, F], rows may be strided, dense inside; one floating dtype. FP32 arithmetic (FP64
// for f64).

#include "ops/dispatch.h"

namespace viaduct {

inline constexpr double kXieluBeta = 0.5, kXieluEpsilon = -1e-6;

struct XieluForwardArgs {
  Tensor in, out;           // out may alias in
  Tensor alpha_p, alpha_n;  // [1], floating; f64 for f64
};
void xielu_forward(OpContext& context, const XieluForwardArgs& args);

/// d_in (=) from d_out and the saved input; it may alias in. d_alpha_p and d_alpha_n += the
/// gradients of the raw values, sums over all elements, made in FP64 in an order that the shape
/// alone decides; both undefined: not computed.
struct XieluBackwardArgs {
  Tensor d_out, in, d_in;
  Tensor alpha_p, alpha_n;      // [1]
  Tensor d_alpha_p, d_alpha_n;  // f32 [1] (f64 for f64); +=
};
void xielu_backward(OpContext& context, const XieluBackwardArgs& args);

}  // namespace viaduct
