#pragma once
// Attention of a rank's queries over keys that it has itself, causal or not, with a bias of the
// scores by distance or without: what encoders and cross attention need. The tokens of other
// context ranks are not attended to.

#include "nn/context_parallel/ring_attention.h"
#include "nn/score_bias.h"

namespace viaduct {

/// `attend`, with the bias where it has a table.
void attend_biased(RankContext& context, const AttentionMethod& method, const RelativeBias& bias,
                   const AttentionForwardArgs& args);

/// ConfigError for heads in FP8.
AttentionResult local_forward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const SavedStore& saved);

/// dq, dk, dv in the statistic format; the gradient of the table accumulates (+=).
AttentionHeads local_backward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const AttendedGradient& d_out,
                              const Tensor& lse);

}  // namespace viaduct
