#pragma once
// Ops of the optimizer step: reproducible sums, the gradient norm with its clip factor, AdamW.

#include "ops/dispatch.h"
#include "ops/step_scalars.h"

namespace viaduct {

/// Doubles in the state of a reproducible sum (binned summation, Demmel and Nguyen 2013): the
/// result is bitwise the same for any order and grouping of the same values. A zeroed tensor is the
/// empty sum; states merge by `merge_sums`.
inline constexpr int64_t kReproducibleSumSize = 8;

/// state (f64 [kReproducibleSumSize]) += sum of x, or of x² (squared), over all elements of a
/// contiguous f32 or f64 tensor. Optionally weighted: x · weight with `weight` f32 of the same
/// shape. A value that is not finite makes the sum NaN.
struct ReproducibleSumArgs {
  Tensor x, weight;
  bool squared = false;
  Tensor state;
};
void reproducible_sum(OpContext& context, const ReproducibleSumArgs& args);

/// state += other (both states of sums).
struct MergeSumsArgs {
  Tensor state, other;
};
void merge_sums(OpContext& context, const MergeSumsArgs& args);

/// out (f64 [1]) = the value of a state.
struct SumValueArgs {
  Tensor state, out;
};
void sum_value(OpContext& context, const SumValueArgs& args);

/// From the state of Σ g² over all main gradients: gradient_norm = gradient_factor · sqrt(Σ g²),
/// clip_factor, and skip = 1 if the norm is not finite (StepScalar slots of `scalars`). Without
/// `skip_not_finite` skip = 0; a norm that is NaN then clips nothing.
struct GradientNormArgs {
  Tensor state, scalars;
  bool skip_not_finite = true;
};
void gradient_norm(OpContext& context, const GradientNormArgs& args);

/// Decoupled AdamW (Loshchilov and Hutter 2019, algorithm 2) over one flat run; nothing if the skip
/// slot is set. With lr the slot that `learning_rate` names:
///
///   g = clip_factor · gradient
///
///   p ← p · (1 − lr · weight_decay · weight_decay_factor)
///
///   m ← β1 · m + (1 − β1) · g
///
///   v ← β2 · v + (1 − β2) · g²
///
///   p ← p − lr · learning_rate_multiplier · (m / bias_correction1) / (√(v / bias_correction2) + ε)
///
/// master, gradient, first, second: f32 (all f64 for f64) of equal element count, contiguous.
/// `weight` (optional) receives the new value rounded to its dtype; absent where the master is the
/// weight.
struct AdamWArgs {
  Tensor master, gradient, first, second, weight;
  Tensor scalars;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;
  double learning_rate_multiplier = 1;
  StepScalar learning_rate = StepScalar::learning_rate;
};
void adamw(OpContext& context, const AdamWArgs& args);

}  // namespace viaduct
