#pragma once
// The way to experts without an exchange of rows: every rank gets the tokens of all n ranks, makes
// rows of those that chose its own experts, and the results are summed over the ranks. Legend as in
// nn/moe/moe_edges.h.

#include "comm/communicator.h"
#include "nn/moe/moe_edges.h"

namespace viaduct {

/// Values of tokens that a pending collective produces. Its operands belong to the collective until
/// `finish`.
class PendingTokens {
 public:
  PendingTokens(CommHandle handle, Tensor result)
      : handle_(std::move(handle)), result_(std::move(result)) {}
  Tensor finish() {
    handle_.wait();
    return result_;
  }

 private:
  CommHandle handle_;
  Tensor result_;
};

/// [T, …] of this rank → [n · T, …] of all ranks, in their order.
PendingTokens gather_tokens(RankContext& context, const ExpertPlace& place, const Tensor& own,
                            MemoryTag tag = MemoryTag::activations);
/// [n · T, …] on each rank → [T, …]: the sum over the ranks, of this rank's tokens. Summed in FP32
/// and rounded once; what ranks send is in the format of `all`.
PendingTokens sum_over_ranks(RankContext& context, const ExpertPlace& place, const Tensor& all);

/// Rows of the tokens of all ranks for the experts of this rank.
struct OwnRows {
  Tensor tokens;    // i32 [A]: the token of each row, by expert and there by token
  Tensor offsets;   // i32 [E' + 1]
  Tensor position;  // i32 [n · T, k]: the row of each choice; −1 for dropped ones and for experts
                    // of other ranks
};

/// From the choices i32 [n · T, k] of all ranks. The host reads the number of rows, once for each
/// forward; with padding to the capacity it follows from the shapes.
OwnRows find_own_rows(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                      const Tensor& choice, MemoryTag tag);

}  // namespace viaduct
