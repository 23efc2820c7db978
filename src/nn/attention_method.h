#pragma once
// How attention is computed once its tokens are there: flash-style, or composed of ops with the
// matrix of scores in memory. The numbers are the same within rounding.

#include "ops/attention.h"

namespace viaduct {

struct AttentionMethod {
  bool flash = true;
  /// Composed attention only: scale, mask and softmax in one op instead of three.
  bool masked_softmax_fusion = true;
  /// Composed attention only. False: scaled scores, probabilities and their gradients are rounded
  /// to the format of the activations between the steps of the softmax, which then runs in three
  /// ops; maxima and sums stay FP32.
  bool softmax_in_fp32 = true;
};

/// As attention_forward and attention_backward. Composed, a matrix f32 (f64 for f64) [heads,
/// queries, longest run of keys] is held while it runs, two in the backward, which makes the
/// probabilities again from the log-sum-exp: nothing of that size is kept between the two.
void attend(OpContext& context, const AttentionMethod& method, const AttentionForwardArgs& args);
void attend_backward(OpContext& context, const AttentionMethod& method,
                     const AttentionBackwardArgs& args);

}  // namespace viaduct
