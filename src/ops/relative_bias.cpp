#include "ops/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "ops/attention_checks.h"
#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_table(std::string_view op, std::string_view argument, const Tensor& table,
                 const RelativeBuckets& relative, const Tensor& matrix) {
  const std::string problem = relative_buckets_problem(relative);
  VIADUCT_CHECK(ShapeError, problem.empty(), "{}: relative: {}", op, problem);
  check_shape(op, argument, table, {relative.buckets, matrix.dim(0)});
  check_floating(op, argument, table);
  check_contiguous(op, argument, table);
}

void check_scores(std::string_view op, std::string_view argument, const Tensor& matrix,
                  const AttentionProblem& problem) {
  check_rank(op, argument, matrix, 3);
  check_dtype(op, argument, matrix, {DType::f32, DType::f64});
  check_contiguous(op, argument, matrix);
  VIADUCT_CHECK(ShapeError, matrix.dim(2) >= problem.max_keys,
                "{}: {}: expected rows of at least max_keys = {}, found {}", op, argument,
                problem.max_keys, describe(matrix));
  AttentionProblem without_dropout = problem;
  without_dropout.dropout = 0;  // these ops draw no random numbers
  check_attention_problem(op, without_dropout, matrix.dim(1), 0);
}

}  // namespace

std::string relative_buckets_problem(const RelativeBuckets& relative) {
  const int64_t own = buckets_of_direction(relative);
  if (own < 2 || (relative.both_directions && relative.buckets % 2 != 0)) {
    return fmt::format("{} buckets, expected {}", relative.buckets,
                       relative.both_directions ? "an even number of at least 4" : "at least 2");
  }
  if (relative.max_distance <= own / 2) {
    return fmt::format(
        "a largest distance of {}, expected more than the {} that have a bucket each",
        relative.max_distance, own / 2);
  }
  return "";
}

int64_t relative_bucket(const RelativeBuckets& relative, int64_t distance) {
  const int64_t own = buckets_of_direction(relative), exact = own / 2;
  const int64_t first = relative.both_directions && distance > 0 ? own : 0;
  const int64_t far =
      relative.both_directions ? std::abs(distance) : std::max<int64_t>(0, -distance);
  if (far < exact) return first + far;
  const double growth =
      std::log(static_cast<double>(relative.max_distance) / static_cast<double>(exact));
  const float of_factor = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                          static_cast<float>(growth) * static_cast<float>(own - exact);
  return first + std::min(exact + static_cast<int64_t>(of_factor), own - 1);
}

void score_bias(OpContext& context, const ScoreBiasArgs& args) {
  constexpr std::string_view op = "score_bias";
  check_scores(op, "matrix", args.matrix, args.problem);
  check_table(op, "table", args.table, args.relative, args.matrix);
  VIADUCT_CHECK(ShapeError, accumulator_dtype(args.table.dtype()) == args.matrix.dtype(),
                "{}: table: expected a dtype that is summed in {}, found {}", op,
                dtype_name(args.matrix.dtype()), describe(args.table));
  dispatch(context, op, context.ops.score_bias, args);
}

void score_bias_backward(OpContext& context, const ScoreBiasBackwardArgs& args) {
  constexpr std::string_view op = "score_bias_backward";
  check_scores(op, "gradient", args.gradient, args.problem);
  check_table(op, "d_table", args.d_table, args.relative, args.gradient);
  check_dtype(op, "d_table", args.d_table, {args.gradient.dtype()});
  dispatch(context, op, context.ops.score_bias_backward, args);
}

}  // namespace viaduct
