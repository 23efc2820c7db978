#pragma once
// The relative position bias of attention's scores on the cpu. All distances beyond the largest
// share a bucket, so that a head's bias is a vector of 2 · max_distance + 1 numbers, for the
// distances −max_distance … max_distance.

#include <algorithm>

#include "base/thread_pool.h"
#include "ops/attention.h"
#include "ops/cpu/attention/attention_kernels.h"

namespace viaduct::cpu {

inline int64_t bias_distances(const RelativeBuckets& relative) {
  return 2 * relative.max_distance + 1;
}

/// bias[0, bias_distances) of head n of a table [buckets, N].
inline void bias_of_head(const RelativeBuckets& relative, const Tensor& table, int64_t n,
                         float* bias) {
  const int64_t heads = table.dim(1);
  dispatch_floating(table.dtype(), [&](auto zero) {
    const auto* from = table.data<decltype(zero)>();
    for (int64_t at = 0; at < bias_distances(relative); ++at) {
      const int64_t bucket = relative_bucket(relative, at - relative.max_distance);
      bias[at] = static_cast<float>(from[bucket * heads + n]);
    }
  });
}

/// d_table[bucket, n] += the sums [bias_distances] over its distances.
inline void add_bias_gradient(const RelativeBuckets& relative, const double* sums, int64_t n,
                              const Tensor& d_table) {
  // The distances of a bucket are neighbours.
  for (int64_t at = 0, count = bias_distances(relative); at < count;) {
    const int64_t bucket = relative_bucket(relative, at - relative.max_distance);
    double sum = 0;
    for (; at < count && relative_bucket(relative, at - relative.max_distance) == bucket; ++at)
      sum += sums[at];
    d_table.data<float>()[bucket * d_table.dim(1) + n] += static_cast<float>(sum);
  }
}

/// The bias of all heads of a launch, in its workspace; nothing for a problem without one.
class HeadBiases {
 public:
  static int64_t floats(const AttentionProblem& problem) {
    if (!problem.bias) return 0;
    return (problem.bias.dim(1) * bias_distances(problem.relative) + 15) / 16 * 16;
  }

  /// `memory`: `floats` floats.
  HeadBiases(ThreadPool& pool, const AttentionProblem& problem, float* memory)
      : data_(problem.bias ? memory : nullptr), reach_(problem.relative.max_distance) {
    if (!problem.bias) return;
    pool.run(problem.bias.dim(1), [&](int64_t n, int) {
      bias_of_head(problem.relative, problem.bias, n, memory + n * (2 * reach_ + 1));
    });
  }

  /// That of query head n.
  void give(AttentionHead& head, int64_t n) const {
    if (data_ == nullptr) return;
    head.bias = data_ + n * (2 * reach_ + 1);
    head.bias_reach = reach_;
  }

 private:
  const float* data_;
  int64_t reach_;
};

}  // namespace viaduct::cpu
