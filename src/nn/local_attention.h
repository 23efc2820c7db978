#pragma once
// Attention of a rank's queries over keys that it has itself, causal or not, with a bias of the
// scores by distance or without: what encoders and cross attention need. The tokens of other
// context ranks are not attended to.

#include "nn/context_parallel/ring_attention.h"
#include "nn/parameter.h"
#include "ops/relative_bias.h"

namespace viaduct {

/// The bias of attention's scores by relative position (ops/relative_bias.h), of a stack of layers
/// that share its table.
struct RelativeBias {
  std::shared_ptr<const Parameter> table;  // [buckets, heads here]; null: none
  RelativeBuckets buckets;
};

/// ConfigError where several context ranks have the batch's tokens, or for heads in FP8.
AttentionResult local_forward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const SavedStore& saved);

/// dq, dk, dv in the statistic format; the gradient of the table accumulates (+=).
AttentionHeads local_backward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const AttendedGradient& d_out,
                              const Tensor& lse);

}  // namespace viaduct
