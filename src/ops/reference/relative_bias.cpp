#include "ops/relative_bias.h"

#include "ops/reference/attention_queries.h"
#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

/// Calls f(element, bucket, head) for every pair of a query and a key of its document; `element`
/// counts those of the matrix.
template <class F>
void for_pairs(const AttentionProblem& problem, const RelativeBuckets& relative,
               const Tensor& matrix, F&& f) {
  for_attention_queries(problem, matrix.dim(0), 1, [&](const AttentionQuery& query) {
    for (int64_t j = 0; j < query.keys; ++j) {
      f((query.head * matrix.dim(1) + query.token) * matrix.dim(2) + j,
        relative_bucket(relative, j - query.place), query.head);
    }
  });
}

}  // namespace

void score_bias(const ScoreBiasArgs& args) {
  for_pairs(args.problem, args.relative, args.matrix,
            [&](int64_t element, int64_t bucket, int64_t head) {
              args.matrix.data<double>()[element] +=
                  args.table.data<double>()[bucket * args.table.dim(1) + head];
            });
}

void score_bias_backward(const ScoreBiasBackwardArgs& args) {
  for_pairs(args.problem, args.relative, args.gradient,
            [&](int64_t element, int64_t bucket, int64_t head) {
              args.d_table.data<double>()[bucket * args.d_table.dim(1) + head] +=
                  args.gradient.data<double>()[element];
            });
}

}  // namespace viaduct::reference
