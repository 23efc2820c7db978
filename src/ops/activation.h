#pragma once
// Activation functions of the feed-forward layer, gated or not, computed in FP32 (FP64 for f64).
//   plain   out [T, F] = f(in [T, F])
//   gated   out [T, F] = f(gate) · up, in [T, 2F] = gate | up        (GLU variants, Shazeer 2020)
// Rows may be strided, dense inside; one floating dtype. Gated ones may have a shape (GPT-OSS).

#include <array>
#include <string_view>

#include "ops/dispatch.h"
#include "ops/produced_forms.h"

namespace viaduct {

enum class ActivationKind {
  gelu,        // x · Φ(x), by erf
  gelu_tanh,   // the tanh approximation ("gelu_new", "gelu_pytorch_tanh")
  quick_gelu,  // x · sigmoid(1.702 x)
  silu,        // x · sigmoid(x)
  relu,
  squared_relu,
};
constexpr auto choice_names(ActivationKind) {
  return std::to_array<std::string_view>(
      {"gelu", "gelu_tanh", "quick_gelu", "silu", "relu", "squared_relu"});
}

/// What a gated activation does in addition to f(gate) · up:
///   out = f(min(gate, clamp)) · (min(max(up, −clamp), clamp) + offset)
/// A clamped value has no gradient.
struct GateShape {
  double clamp = 0;  // 0: none
  double offset = 0;
  /// in [T, 2F] has neighbours gate, up, gate, up …, as GPT-OSS stores them.
  bool interleaved = false;

  bool any() const { return clamp != 0 || offset != 0 || interleaved; }
  bool operator==(const GateShape&) const = default;
};

struct ActivationForwardArgs {
  ActivationKind kind = ActivationKind::silu;
  bool gated = true;
  Tensor in, out;
  GateShape shape = {};
  ProducedForms forms = {};  // of out
};

void activation_forward(OpContext& context, const ActivationForwardArgs& args);

/// d_in (=) from d_out and the saved input; d_in has the shape of in and may alias it.
struct ActivationBackwardArgs {
  ActivationKind kind = ActivationKind::silu;
  bool gated = true;
  Tensor d_out, in, d_in;
  GateShape shape = {};
};

void activation_backward(OpContext& context, const ActivationBackwardArgs& args);

}  // namespace viaduct
