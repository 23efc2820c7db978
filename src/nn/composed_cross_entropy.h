#pragma once
// The loss of the head as a composition of single ops over whole logits tensors: what the fused ops
// of ops/cross_entropy.h do chunk by chunk, with the same results within rounding.

#include "nn/batch.h"
#include "nn/context.h"
#include "nn/saved.h"

namespace viaduct {

/// The part of the vocabulary that a tensor rank holds.
struct VocabularyColumns {
  int64_t first, count;
};

/// From this rank's logits [T, V here] (f32; overwritten) to log-sum-exps and target logits [T]
/// of the whole vocabulary, the same on all tensor ranks. Keeps the probabilities [T, V here] of
/// this rank's columns under `owner`.
void composed_cross_entropy_forward(RankContext& context, const Batch& batch,
                                    const VocabularyColumns& columns, double softcap,
                                    const Tensor& logits, const Tensor& lse,
                                    const Tensor& target_logit, const void* owner,
                                    SavedStore& saved);

/// The gradient of this rank's logits [T, V here] in the activation format.
Tensor composed_cross_entropy_backward(RankContext& context, const Batch& batch,
                                       const VocabularyColumns& columns, double softcap,
                                       const void* owner, SavedStore& saved);

}  // namespace viaduct
