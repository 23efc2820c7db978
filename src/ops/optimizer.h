#pragma once
// Ops of the optimizer step: reproducible sums, the gradient norm with its clip factor, AdamW.

#include <vector>

#include "ops/dispatch.h"
#include "ops/step_scalars.h"

namespace viaduct {

/// Doubles in the state of a reproducible sum (binned summation, Demmel and Nguyen 2013): the
/// result is bitwise the same for any order and grouping of the same values. A zeroed tensor is the
/// empty sum.
inline constexpr int64_t kReproducibleSumSize = 8;
/// Integers in the wide form of a state, which has a place for each of the 53 bins that cover FP64:
/// high and low part of its sum and whether it is the top one, and after them whether a value
/// was not finite. Wide forms are merged by adding them element by element, so an all-reduce of i64
/// merges the states of any number of ranks, exactly, in the same few bytes and launches.
inline constexpr int64_t kWideSumSize = 3 * 53 + 1;

/// state (f64 [kReproducibleSumSize]) += sum of x, or of x² (squared), over all elements of a
/// contiguous f32 or f64 tensor. Optionally weighted: x · weight with `weight` f32 of the same
/// shape. A value that is not finite makes the sum NaN.
struct ReproducibleSumArgs {
  Tensor x, weight;
  bool squared = false;
  Tensor state;
};
void reproducible_sum(OpContext& context, const ReproducibleSumArgs& args);

/// The same over all elements of several tensors of one dtype, bf16 too, in one launch; nothing for
/// none.
struct ReproducibleSumsArgs {
  std::vector<Tensor> x;
  bool squared = false;
  Tensor state;
};
void reproducible_sums(OpContext& context, const ReproducibleSumsArgs& args);

/// wide (i64 [kWideSumSize]) = the wide form of a state.
struct WidenSumArgs {
  Tensor state, wide;
};
void widen_sum(OpContext& context, const WidenSumArgs& args);

/// state = the merge of all states whose wide forms were added up in `wide` (of up to 2^23 states).
struct NarrowSumArgs {
  Tensor wide, state;
};
void narrow_sum(OpContext& context, const NarrowSumArgs& args);

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
///
/// Instead of f32 the gradient may be bf16, and the others may be in formats of state
/// (tensor/state_formats.h), still computed in FP32: moments in bf16, f16 or e4m3, the
/// master in f16 or as remainders (i16) of `weight`, which is then bf16 and read too. `…_scales`
/// belong to those that are scaled.
struct AdamWArgs {
  Tensor master, gradient, first, second, weight;
  Tensor scalars;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;
  double learning_rate_multiplier = 1;
  StepScalar learning_rate = StepScalar::learning_rate;
  Tensor master_scales, first_scales, second_scales;
};
void adamw(OpContext& context, const AdamWArgs& args);

/// The same over several runs in one launch; nothing for none. They have one dtype of masters, of
/// weights, of gradients and of each moment, and the same scalars.
struct AdamWListArgs {
  std::vector<AdamWArgs> runs;
};
void adamw_list(OpContext& context, const AdamWListArgs& args);
/// Whether two runs can be of one list: the same dtypes of masters, weights, gradients and moments,
/// and both with a weight to write or none.
bool same_formats(const AdamWArgs& a, const AdamWArgs& b);

}  // namespace viaduct
