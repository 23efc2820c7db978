#pragma once
// Attention over the gathered keys and values of all context ranks. The two halves of a rank's
// queries take two calls of the op, because they are at different positions of their document.
// Windows are allowed, and a bias of the scores by distance. Gathered tensors are not kept: the
// backward gathers again.

#include "nn/context_parallel/ring_attention.h"
#include "nn/score_bias.h"

namespace viaduct {

/// As ring_forward and ring_backward, over the context group `group` (more than one rank).
AttentionResult gathered_forward(RankContext& context, Communicator& group,
                                 const ContextLayout& layout, const AttentionMethod& method,
                                 const AttentionProblem& base, const AttentionHeads& heads,
                                 const SavedStore& saved, const RelativeBias& bias = {});
AttentionHeads gathered_backward(RankContext& context, Communicator& group,
                                 const ContextLayout& layout, const AttentionMethod& method,
                                 const AttentionProblem& base, const AttentionHeads& heads,
                                 const AttendedGradient& d_out, const Tensor& lse,
                                 const RelativeBias& bias = {});

}  // namespace viaduct
