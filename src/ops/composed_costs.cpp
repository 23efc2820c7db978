// Costs of what is composed of ops: the score matrix of unfused attention, and the steps of softmax
// cross entropy.

#include "ops/checks.h"
#include "ops/make_cost.h"

namespace viaduct {
namespace {

// Operations of an exponential of a softmax's steps (a polynomial of degree 7), and of a tanh based
// on one.
constexpr double kExponentialFlops = 18, kTanhFlops = 24;

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

Cost cost_of(const ScoreSoftmaxArgs& args) {
  const double per_element = args.steps == ScoreSteps::all     ? 4
                             : args.steps == ScoreSteps::scale ? 1
                             : args.steps == ScoreSteps::mask  ? 0
                                                               : 3;
  Cost cost;
  add_vector_flops(cost, args.matrix.dtype(),
                   per_element * matrix_elements(args.matrix, args.problem));
  cost.bytes_read = matrix_bytes(args.matrix, args.problem);
  cost.bytes_written = matrix_bytes(args.narrow ? args.narrow : args.matrix, args.problem);
  if (args.steps == ScoreSteps::all || args.steps == ScoreSteps::softmax)
    (args.known_lse ? cost.bytes_read : cost.bytes_written) += bytes_of(args.lse);
  return cost;
}

Cost cost_of(const ScoreSoftmaxBackwardArgs& args) {
  const double per_element = args.steps == ScoreSteps::all       ? 3
                             : args.steps == ScoreSteps::softmax ? 2
                                                                 : 1;
  Cost cost;
  add_vector_flops(cost, args.gradient.dtype(),
                   per_element * matrix_elements(args.gradient, args.problem));
  cost.bytes_written = matrix_bytes(args.narrow ? args.narrow : args.gradient, args.problem);
  cost.bytes_read =
      matrix_bytes(args.gradient, args.problem) + bytes_of(args.lse) + bytes_of(args.delta);
  // The scale step reads probabilities only for the slope of the cap.
  if (args.steps != ScoreSteps::scale || args.problem.softcap > 0)
    cost.bytes_read += matrix_bytes(args.probabilities, args.problem);
  return cost;
}

Cost cost_of(const ScoreDropoutArgs& args) {
  Cost cost;
  add_vector_flops(cost, accumulator_dtype(args.x.dtype()), matrix_elements(args.x, args.problem));
  cost.bytes_read = cost.bytes_written = matrix_bytes(args.x, args.problem);
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

Cost cost_of(const SoftCapArgs& args) {
  return make_cost(args.x.dtype(), kTanhFlops * count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const SoftCapBackwardArgs& args) {
  return make_cost(args.z.dtype(), 4 * count(args.z), {&args.d_out, &args.z}, {&args.d_in});
}

Cost cost_of(const RowLargestArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const RowExponentialArgs& args) {
  return make_cost(args.x.dtype(), kExponentialFlops * count(args.x), {&args.x, &args.shift},
                   {&args.out});
}

Cost cost_of(const RowSumArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const RowDivideArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x, &args.divisor}, {&args.out});
}

/// Reads one element of a row.
Cost cost_of(const RowPickArgs& args) {
  return make_cost(args.out.dtype(), 0, {&args.out, &args.targets}, {&args.out});
}

Cost cost_of(const SoftmaxLossBackwardArgs& args) {
  return make_cost(args.out.dtype(), 2 * count(args.out),
                   {&args.probabilities, &args.targets, &args.weight}, {&args.out});
}

}  // namespace viaduct
