#pragma once
// The bias of a score matrix by relative position (ops/relative_bias.h): f32 [N, Tq, L], and a
// table [buckets, N].

#include "ops/cuda/kernels/attention.h"

namespace viaduct::cuda {

/// Which bucket a distance has. The host finds the borders, so that no bucket depends on a GPU's
/// logarithm.
inline constexpr int kMostBorders = 512;
struct BucketsView {
  int own;    // buckets of a direction
  int exact;  // the first of them have one distance each, 0, 1, …
  bool both;  // keys behind the query have further `own` buckets
  /// The least distances of the buckets exact + 1, exact + 2, …: own − exact − 1 of them,
  /// ascending.
  int32_t borders[kMostBorders];
};

/// matrix += table[bucket, head].
struct ScoreBiasView {
  AttentionProblemView problem;  // offsets alone; kv_heads are all heads
  BucketsView buckets;
  const void* table;
  Format format;
  float* matrix;
  int64_t row;  // L
};
void score_bias(const ScoreBiasView& args, Stream stream);

/// d_table += sums of the gradient by bucket, in FP64 and in one order.
struct ScoreBiasSums {
  AttentionProblemView problem;
  BucketsView buckets;
  const float* gradient;
  int64_t row;
  double* partial;  // [parts, N, buckets]
  int64_t parts;    // of the queries
  float* d_table;
};
void score_bias_backward(const ScoreBiasSums& args, Stream stream);

}  // namespace viaduct::cuda
