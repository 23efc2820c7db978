#pragma once
// How attention is computed: flash-style, or composed of ops with the score matrix in memory. The
// results are the same within rounding.

#include "ops/relative_bias.h"

namespace viaduct {

struct AttentionMethod {
  bool flash = true;
  /// Composed attention only: scale, mask and softmax in one op instead of three.
  bool masked_softmax_fusion = true;
  /// Composed attention only. False: scaled scores, probabilities and their gradients are rounded
  /// to the activation format between the steps of the softmax, which then runs as three ops;
  /// maxima and sums stay FP32.
  bool softmax_in_fp32 = true;
  /// Attended values in the statistic format, which are rounded where they are passed on.
  bool wide_output = false;
  /// Flash attention only: by the vendor's library where it supports the call (ops/attention.h).
  bool library = false;
};

/// A bias of the scores by the distance of query and key. Where the backend's attention does not
/// add it (ops/attention.h), attention is composed whatever the method says.
struct ScoreBias {
  RelativeBuckets relative;
  Tensor table;    // [buckets, N], as score_bias reads it
  Tensor d_table;  // += in the backward; undefined: it is not trained
};

/// As attention_forward and attention_backward. Composed attention holds a matrix f32 (f64 for f64)
/// [heads, queries, longest run of keys] while it runs; the backward holds two and recomputes the
/// probabilities from the log-sum-exp: no tensor of this size is kept between forward and backward.
/// Where products round their factors (OpTable::narrow_score_factors), these are matrices of 16
/// bits: the forward holds one beside the scores, the backward two beside the gradient. `bias` is
/// added to the scaled scores (null: none); ShapeError with a soft cap.
void attend(OpContext& context, const AttentionMethod& method, const AttentionForwardArgs& args,
            const ScoreBias* bias = nullptr);
void attend_backward(OpContext& context, const AttentionMethod& method,
                     const AttentionBackwardArgs& args, const ScoreBias* bias = nullptr);

}  // namespace viaduct
