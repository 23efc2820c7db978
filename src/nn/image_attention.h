#pragma once
// Attention of an image's tokens to those ahead of them in the same image, which causal attention
// leaves out (Gemma 3). These are other keys than the causal ones, so that both outputs are merged
// by their log-sum-exp: the tokens ahead are those behind once the image is read from its end. A
// layer's window cuts keys behind a query, and none ahead.

#include "nn/attention_method.h"
#include "nn/batch.h"
#include "nn/context.h"
#include "nn/context_parallel/ring_attention.h"

namespace viaduct {

/// Adds the keys ahead to `result`, which is that of causal attention (q [T, N, D], k [T, K, D] and
/// v [T, K, Dv]; no dropout, no soft cap).
void attend_ahead(RankContext& context, const AttentionMethod& method, const AttentionProblem& base,
                  const BatchImages::Ahead& ahead, const AttentionHeads& heads,
                  AttentionResult& result);

/// d_heads += their share of dq, dk, dv. `lse` [N, T] and the delta of `d_out` are those of the
/// merged output.
void attend_ahead_backward(RankContext& context, const AttentionMethod& method,
                           const AttentionProblem& base, const BatchImages::Ahead& ahead,
                           const AttentionHeads& heads, const AttendedGradient& d_out,
                           const Tensor& lse, const AttentionHeads& d_heads);

}  // namespace viaduct
