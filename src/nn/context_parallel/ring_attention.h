#pragma once
// Attention over a ring of ranks: every rank keeps its queries, and the blocks of keys and values
// travel around the ring, rank r receiving from r − 1 and sending to r + 1 (Liu et al. 2023; zigzag
// order of Zhu 2024). A block is transferred while the previous one is computed. In a group of one
// rank this is plain attention.
//
// Step 0 is the rank's own causal block. All queries see the first half of the keys of a lower rank
// and nothing of its second half; only the second half of the queries sees a higher rank's keys,
// all of them. The outputs are merged by their log-sum-exp and summed in FP32.

#include <vector>

#include "nn/attention_method.h"
#include "nn/context.h"
#include "nn/context_parallel/layout.h"
#include "nn/saved.h"

namespace viaduct {

/// q [I, N, D], k [I, K, D] and v [I, K, Dv]; as codes (nn/attention_codes.h) with their scales.
struct AttentionHeads {
  Tensor q, k, v;
  Tensor scales = {};  // f32 [3], of codes

  /// For units that are recomputed: the tensors that are defined, and heads from them.
  std::vector<Tensor> tensors() const {
    return scales ? std::vector{q, k, v, scales} : std::vector{q, k, v};
  }
  static AttentionHeads of(const std::vector<Tensor>& tensors) {
    return {tensors[0], tensors[1], tensors[2], tensors.size() > 3 ? tensors[3] : Tensor()};
  }
};

/// The gradient of attended values [I, N, Dv], with the scale f32 [1] of codes, and the row sums
/// [N, I] of its product with the values. `out`: the attended values themselves, for attention that
/// a library may compute.
struct AttendedGradient {
  Tensor values, scale, delta;
  Tensor out = {};
};

/// Attended values [I, N, Dv] and log-sum-exp [N, I].
struct AttentionResult {
  Tensor out, lse;
};

/// `base`: the fields that are the same for all blocks, scales of codes among them. `saved` decides
/// the memory tags of the result.
AttentionResult ring_forward(RankContext& context, Communicator& ring,
                             const AttentionLayout& layout, const AttentionMethod& method,
                             const AttentionProblem& base, const AttentionHeads& heads,
                             const SavedStore& saved);

/// dq, dk, dv in the statistic format. The gradient of a key-value block follows it around the
/// ring, and every rank adds its part (FP32 on the wire).
AttentionHeads ring_backward(RankContext& context, Communicator& ring,
                             const AttentionLayout& layout, const AttentionMethod& method,
                             const AttentionProblem& base, const AttentionHeads& heads,
                             const AttendedGradient& d_out, const Tensor& lse);
/// Attended values of `shape` before they are kept or handed on.
Tensor allocate_attended(RankContext& context, const AttentionMethod& method, const Shape& shape,
                         MemoryTag tag);

}  // namespace viaduct
