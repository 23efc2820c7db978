#pragma once
// Biases of experts: rows are sorted by expert (ops/expert_rows.h), and each expert has a bias of
// its own. A rows, E experts of this rank, N features.

#include "ops/dispatch.h"

namespace viaduct {

/// x[r] += bias[e] for the rows r of expert e, [offsets[e], offsets[e + 1]).
struct ExpertBiasArgs {
  Tensor x;        // [A, N], floating, dense rows; changed
  Tensor bias;     // [E, N], contiguous, floating; f64 for f64
  Tensor offsets;  // i32 [E + 1], contiguous, ascending, from 0 to A
};
void expert_bias(OpContext& context, const ExpertBiasArgs& args);

/// d_bias[e] += Σ dy[r] over the rows of expert e, in their order, in FP32 (FP64 for f64).
struct ExpertBiasBackwardArgs {
  Tensor dy;       // [A, N], floating, dense rows
  Tensor d_bias;   // f32 (f64 for f64) [E, N], contiguous; +=
  Tensor offsets;  // as above
};
void expert_bias_backward(OpContext& context, const ExpertBiasBackwardArgs& args);

}  // namespace viaduct
