// Costs of ops on the score matrix of composed attention.

#include "ops/checks.h"
#include "ops/make_cost.h"

namespace viaduct {
namespace {

/// Elements of a score matrix for (query, key) pairs of one document, from the bounds.
double matrix_elements(const Tensor& matrix, const AttentionProblem& problem) {
  const int64_t keys = problem.max_keys > 0 ? problem.max_keys : matrix.dim(2);
  return static_cast<double>(matrix.dim(0) * matrix.dim(1)) * static_cast<double>(keys);
}

int64_t matrix_bytes(const Tensor& matrix, const AttentionProblem& problem) {
  return static_cast<int64_t>(matrix_elements(matrix, problem)) * dtype_bytes(matrix.dtype());
}

}  // namespace

Cost cost_of(const ScoreProductArgs& args) {
  Cost cost;
  add_vector_flops(
      cost, accumulator_dtype(args.matrix.dtype()),
      2 * matrix_elements(args.matrix, args.problem) * static_cast<double>(args.queries.dim(2)));
  const int64_t matrix = matrix_bytes(args.matrix, args.problem);
  const int64_t queries = bytes_of(args.queries), keys = bytes_of(args.keys);
  switch (args.form) {
    case ScoreProduct::scores:
      cost.bytes_read = queries + keys;
      cost.bytes_written = matrix;
      break;
    case ScoreProduct::values:
      cost.bytes_read = matrix + keys + (args.mode == WriteMode::accumulate ? queries : 0);
      cost.bytes_written = queries;
      break;
    case ScoreProduct::keys:
      cost.bytes_read = matrix + queries + keys;
      cost.bytes_written = keys;
      break;
  }
  return cost;
}

/// Of dropout the random numbers are not counted.
Cost cost_of(const ScoreRowsArgs& args) {
  const ScoreParts parts = parts_of(args.step);
  const double softmax = parts.backward ? 2 : 3;
  const double per_element =
      args.step == ScoreStep::dropout ? 1 : (parts.scale ? 1 : 0) + (parts.softmax ? softmax : 0);
  const Tensor& out = args.out ? args.out : args.x;
  Cost cost;
  add_vector_flops(cost, accumulator_dtype(args.x.dtype()),
                   per_element * matrix_elements(args.x, args.problem));
  cost.bytes_read = matrix_bytes(args.x, args.problem);
  cost.bytes_written = matrix_bytes(out, args.problem);
  if (!parts.backward) {
    if (parts.softmax)
      (args.known_lse ? cost.bytes_read : cost.bytes_written) += bytes_of(args.lse);
    return cost;
  }
  cost.bytes_read += bytes_of(args.lse) + bytes_of(args.delta);
  // The scale step reads probabilities only for the slope of the cap.
  if (parts.softmax || args.problem.softcap > 0)
    cost.bytes_read += matrix_bytes(args.probabilities, args.problem);
  return cost;
}

Cost cost_of(const ScoreBiasArgs& args) {
  Cost cost;
  add_vector_flops(cost, args.matrix.dtype(), matrix_elements(args.matrix, args.problem));
  cost.bytes_written = matrix_bytes(args.matrix, args.problem);
  cost.bytes_read = cost.bytes_written + bytes_of(args.table);
  return cost;
}

Cost cost_of(const ScoreBiasBackwardArgs& args) {
  Cost cost;
  add_vector_flops(cost, args.gradient.dtype(), matrix_elements(args.gradient, args.problem));
  cost.bytes_written = bytes_of(args.d_table);
  cost.bytes_read = matrix_bytes(args.gradient, args.problem) + cost.bytes_written;
  return cost;
}

}  // namespace viaduct
