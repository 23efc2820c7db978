#pragma once
// The steps of Muon around its matrix products (Jordan et al. 2024, "Muon: an optimizer for hidden
// layers in neural networks"). FP32, flat and contiguous.

#include "ops/dispatch.h"
#include "ops/step_scalars.h"

namespace viaduct {

/// With g = clip_factor · gradient:
///
///   m ← momentum · m + (1 − momentum) · g,   out = m, or with `nesterov`
///   out = momentum · m + (1 − momentum) · g
///
/// If the skip slot is set, `state` does not change, and out is undefined. gradient, state,
/// out: equal element count.
struct MuonMomentumArgs {
  Tensor gradient, state, out;
  Tensor scalars;
  double momentum = 0.95;
  bool nesterov = false;
};
void muon_momentum(OpContext& context, const MuonMomentumArgs& args);

/// x ← x / max(√sum, epsilon), `sum` (f64 [1]) being that of the squares of a matrix.
struct NormalizeArgs {
  Tensor x, sum;
  double epsilon = 1e-7;
};
void normalize(OpContext& context, const NormalizeArgs& args);

/// p ← p · (1 − lr · weight_decay · weight_decay_factor) − lr · update; nothing if the skip slot is
/// set. `weight` (optional) receives the new value rounded to its dtype.
struct MuonUpdateArgs {
  Tensor master, update, weight;
  Tensor scalars;
  double weight_decay = 0;
};
void muon_update(OpContext& context, const MuonUpdateArgs& args);

}  // namespace viaduct
