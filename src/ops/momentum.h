#pragma once
// Updates whose only state is a momentum: SGD and Lion.

#include <vector>

#include "ops/dispatch.h"
#include "ops/step_scalars.h"

namespace viaduct {

enum class MomentumRule { sgd, lion };

/// One update of a flat run; nothing if the skip slot is set. With lr the slot that `learning_rate`
/// names, g = clip_factor · gradient and λ = weight_decay · weight_decay_factor:
///
/// sgd (Sutskever et al. 2013, as in PyTorch: decay is a part of the gradient):
///
///   m ← momentum · m + (g + λ · p),   p ← p − lr · m
///
/// lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2):
///
///   p ← p · (1 − lr · λ) − lr · sign(β1 · m + (1 − β1) · g),   m ← β2 · m + (1 − β2) · g
///
/// master, gradient, state: f32 (all f64 for f64) of equal element count, contiguous. `weight`
/// (optional) receives the new value rounded to its dtype; absent where the master is the weight.
struct MomentumArgs {
  Tensor master, gradient, state, weight;
  Tensor scalars;
  MomentumRule rule = MomentumRule::sgd;
  double momentum = 0.9;              // sgd
  double beta1 = 0.95, beta2 = 0.98;  // lion
  double weight_decay = 0;
  StepScalar learning_rate = StepScalar::learning_rate;
};

/// Several runs in one launch; nothing for none. They have one rule, one dtype of masters and one
/// of weights, and the same scalars. In the record it has the name of the rule.
struct MomentumListArgs {
  std::vector<MomentumArgs> runs;
};
void momentum_list(OpContext& context, const MomentumListArgs& args);

}  // namespace viaduct
