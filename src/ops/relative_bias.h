#pragma once
// Relative position bias: a learned number for each head and bucket of distances between query and
// key is added to attention's scores (Raffel et al. 2020, arXiv 1910.10683, section 2.1; shared by
// the layers of a stack). For attention composed of ops: problem and score matrix are those of
// ops/score_matrix.h; attention_forward has a bias of its own (ops/attention.h).

#include "ops/attention.h"
#include "ops/relative_buckets.h"

namespace viaduct {

/// matrix[n, t, j] += table[bucket(j − i − e), n] for the keys j of the query's document, i the
/// query's place in it and e the document's diagonal (ops/attention.h); hidden keys included.
struct ScoreBiasArgs {
  AttentionProblem problem;
  RelativeBuckets relative;
  Tensor table;   // [buckets, N], contiguous, floating; f64 for f64
  Tensor matrix;  // f32 (f64) [N, Tq, L], contiguous; +=
};
void score_bias(OpContext& context, const ScoreBiasArgs& args);

/// d_table[b, n] += Σ gradient[n, t, j] over the queries t and keys j whose bucket is b; the sums
/// are made in FP64, in the order of t.
struct ScoreBiasBackwardArgs {
  AttentionProblem problem;
  RelativeBuckets relative;
  Tensor gradient;  // f32 (f64) [N, Tq, L], contiguous: of the scores with their bias
  Tensor d_table;   // f32 (f64) [buckets, N], contiguous; +=
};
void score_bias_backward(OpContext& context, const ScoreBiasBackwardArgs& args);

}  // namespace viaduct
