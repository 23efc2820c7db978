#pragma once
// Values that all heads of a token share: the part of a key with rotary positions in multi-head
// latent attention (ops of nn/latent_attention.h).

#include "ops/dispatch.h"

namespace viaduct {

/// out [T, N, D] with out[t, n] = x[t], x [T, D]. Floating; dtypes may differ; dense rows.
struct RepeatHeadsArgs {
  Tensor x, out;
};
void repeat_heads(OpContext& context, const RepeatHeadsArgs& args);

/// out [T, D] (=) with out[t] = Σ_n x[t, n] in the order of n, x [T, N, D]; its gradient. Floating,
/// dense rows; out is f32 or has the dtype of x, sums are FP32, rounded once (f64: both are f64).
struct SumHeadsArgs {
  Tensor x, out;
};
void sum_heads(OpContext& context, const SumHeadsArgs& args);

}  // namespace viaduct
