#include "ops/score_matrix.h"

#include "ops/attention_checks.h"
#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// Checks for [N, Tq, L] with N heads and `queries` queries, wide enough for the problem. `factor`:
/// it may be narrow.
void check_matrix(std::string_view op, std::string_view argument, const Tensor& matrix,
                  const AttentionProblem& problem, int64_t heads, int64_t queries,
                  bool factor = false) {
  check_rank(op, argument, matrix, 3);
  check_shape(op, argument, matrix, {heads, queries, matrix.dim(2)});
  if (factor) {
    check_floating(op, argument, matrix);
  } else {
    check_dtype(op, argument, matrix, {DType::f32, DType::f64});
  }
  check_contiguous(op, argument, matrix);
  VIADUCT_CHECK(ShapeError, matrix.dim(2) >= problem.max_keys,
                "{}: {}: expected rows of at least max_keys = {}, found {}", op, argument,
                problem.max_keys, describe(matrix));
}

/// Checks for where the result of an op on `matrix` goes, if not into it.
void check_out(std::string_view op, const Tensor& out, const Tensor& matrix, bool narrow) {
  check_shape(op, "out", out, matrix.shape());
  if (narrow) check_dtype(op, "x", matrix, {DType::f32});
  narrow ? check_dtype(op, "out", out, {DType::bf16, DType::f16})
         : check_dtype(op, "out", out, {matrix.dtype()});
  check_contiguous(op, "out", out);
}

void check_query_values(std::string_view op, const Tensor& tensor, std::string_view argument,
                        const Tensor& matrix) {
  check_shape(op, argument, tensor, {matrix.dim(0), matrix.dim(1)});
  check_dtype(op, argument, tensor, {matrix.dtype()});
  check_contiguous(op, argument, tensor);
}

void check_side(std::string_view op, std::string_view argument, const Tensor& tensor,
                const Tensor& matrix, bool summed) {
  check_rank(op, argument, tensor, 3);
  check_floating(op, argument, tensor);
  check_dense_rows(op, argument, tensor);
  const DType sums = accumulator_dtype(matrix.dtype());
  VIADUCT_CHECK(ShapeError, accumulator_dtype(tensor.dtype()) == sums,
                "{}: {}: expected a dtype that is summed in {}, found {}", op, argument,
                dtype_name(sums), describe(tensor));
  if (summed) check_dtype(op, argument, tensor, {sums});
}

}  // namespace

void score_product(OpContext& context, const ScoreProductArgs& args) {
  const std::string_view op = args.form == ScoreProduct::scores   ? "attention_scores"
                              : args.form == ScoreProduct::values ? "attention_values"
                                                                  : "attention_keys";
  check_rank(op, "queries", args.queries, 3);
  check_matrix(op, "matrix", args.matrix, args.problem, args.queries.dim(1), args.queries.dim(0),
               args.form != ScoreProduct::scores);
  check_side(op, "queries", args.queries, args.matrix,
             args.form == ScoreProduct::values && args.mode == WriteMode::accumulate);
  check_side(op, "keys", args.keys, args.matrix, args.form == ScoreProduct::keys);
  VIADUCT_CHECK(ShapeError,
                args.keys.dim(1) > 0 && args.queries.dim(1) % args.keys.dim(1) == 0 &&
                    args.keys.dim(2) == args.queries.dim(2),
                "{}: keys: expected [keys, heads that divide {}, {}], found {}", op,
                args.queries.dim(1), args.queries.dim(2), describe(args.keys));
  AttentionProblem problem = args.problem;
  problem.dropout = 0;  // this op draws no random numbers
  check_attention_problem(op, problem, args.queries.dim(0), args.keys.dim(0));
  dispatch(context, op, context.ops.score_product, args);
}

void score_rows(OpContext& context, const ScoreRowsArgs& args) {
  constexpr std::string_view kNames[] = {"masked_softmax",
                                         "score_scale",
                                         "score_mask",
                                         "score_softmax",
                                         "masked_softmax_backward",
                                         "score_softmax_backward",
                                         "score_scale_backward",
                                         "score_dropout"};
  const std::string_view op = kNames[static_cast<int>(args.step)];
  const ScoreParts parts = parts_of(args.step);
  const bool dropout = args.step == ScoreStep::dropout;
  check_rank(op, "x", args.x, 3);
  check_matrix(op, "x", args.x, args.problem, args.x.dim(0), args.x.dim(1), dropout);
  check_attention_problem(op, args.problem, args.x.dim(1),
                          args.problem.key_position ? args.problem.key_position.dim(0) : 0);
  if (args.out) {
    VIADUCT_CHECK(ShapeError, dropout || parts.softmax || parts.backward,
                  "{}: only probabilities may be narrow", op);
    check_out(op, args.out, args.x, !dropout);
  }
  if (parts.softmax || parts.backward) check_query_values(op, args.lse, "lse", args.x);
  if (!parts.backward) return dispatch(context, op, context.ops.score_rows, args);
  check_shape(op, "probabilities", args.probabilities, args.x.shape());
  check_matrix(op, "probabilities", args.probabilities, args.problem, args.x.dim(0), args.x.dim(1),
               args.problem.softcap == 0);
  check_dtype(op, "x", args.x, {accumulator_dtype(args.probabilities.dtype())});
  check_query_values(op, args.delta, "delta", args.x);
  dispatch(context, op, context.ops.score_rows, args);
}

}  // namespace viaduct
