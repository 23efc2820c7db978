#include "nn/attention_method.h"

#include <utility>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/score_matrix.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// [heads, queries, keys of the longest document].
Tensor score_matrix(OpContext& context, const AttentionProblem& problem, const Tensor& q,
                    DType dtype) {
  return context.allocate(dtype, {q.dim(1), q.dim(0), problem.max_keys}, MemoryTag::activations);
}
Tensor score_matrix(OpContext& context, const AttentionProblem& problem, const Tensor& q) {
  return score_matrix(context, problem, q, accumulator_dtype(q.dtype()));
}

/// Where an op writes its factors of products if not in place: narrow, if products round them.
Tensor narrow_matrix(OpContext& context, const AttentionProblem& problem, const Tensor& q) {
  if (!context.ops.narrow_score_factors || dtype_bytes(q.dtype()) != 2) return {};
  return score_matrix(context, problem, q, q.dtype());
}

/// Rounds the matrix to the format of a softmax that is not in FP32.
void round(OpContext& context, const AttentionMethod& method, const Tensor& matrix, DType format) {
  if (method.softmax_in_fp32 || format == matrix.dtype()) return;
  const Tensor narrow = context.allocate(format, matrix.shape(), MemoryTag::activations);
  copy(context, {matrix, narrow});
  copy(context, {narrow, matrix});
}

/// The result of steps on args.x, and where they leave it.
Tensor score_steps(OpContext& context, ScoreRowsArgs args, ScoreStep step) {
  args.step = step;
  score_rows(context, args);
  return args.out ? args.out : args.x;
}

/// Returns the probabilities: args.out, or the matrix if that is undefined.
Tensor softmax(OpContext& context, const AttentionMethod& method, ScoreRowsArgs args,
               DType format) {
  if (method.masked_softmax_fusion && method.softmax_in_fp32)
    return score_steps(context, args, ScoreStep::masked_softmax);
  const Tensor out = std::exchange(args.out, {});
  round(context, method, score_steps(context, args, ScoreStep::scale), format);
  score_steps(context, args, ScoreStep::mask);
  args.out = out;
  const Tensor result = score_steps(context, args, ScoreStep::softmax);
  if (!out) round(context, method, result, format);
  return result;
}

/// Returns the gradient of the scores: args.out, or the matrix of the gradient.
Tensor softmax_backward(OpContext& context, const AttentionMethod& method, ScoreRowsArgs args,
                        DType format) {
  if (method.masked_softmax_fusion && method.softmax_in_fp32)
    return score_steps(context, args, ScoreStep::masked_softmax_backward);
  const Tensor out = std::exchange(args.out, {});
  round(context, method, args.x, format);
  round(context, method, score_steps(context, args, ScoreStep::softmax_backward), format);
  args.out = out;
  const Tensor result = score_steps(context, args, ScoreStep::scale_backward);
  if (!out) round(context, method, result, format);
  return result;
}

/// Adds the bias, if there is one, to scores [N, Tq, keys]; returns the problem of what is left to
/// do with them: they are scaled then.
AttentionProblem add_bias(OpContext& context, const AttentionProblem& problem, const Tensor& matrix,
                          const ScoreBias* bias) {
  if (bias == nullptr) return problem;
  VIADUCT_CHECK(ShapeError, problem.softcap == 0,
                "attention: a soft cap of {} with a bias of the scores", problem.softcap);
  if (problem.scale != 1) score_rows(context, {ScoreStep::scale, problem, matrix});
  score_bias(context, {problem, bias->relative, bias->table, matrix});
  AttentionProblem left = problem;
  left.scale = 1;
  return left;
}

/// softmax(q · kᵀ + bias) [N, Tq, keys] with the lse given.
Tensor probabilities_again(OpContext& context, const AttentionMethod& method,
                           const AttentionBackwardArgs& args, const ScoreBias* bias) {
  const Tensor matrix = score_matrix(context, args.problem, args.q);
  score_product(context, {ScoreProduct::scores, args.problem, matrix, args.q, args.k});
  const AttentionProblem problem = add_bias(context, args.problem, matrix, bias);
  // The slope of a cap is computed from the probability, which must be exact.
  const Tensor narrow = problem.softcap > 0 ? Tensor() : narrow_matrix(context, problem, args.q);
  return softmax(context, method, {{}, problem, matrix, narrow, args.lse, true}, args.q.dtype());
}

/// The gradient of q · kᵀ from that of the probabilities `args.gradient`, where scores have a bias:
/// it is the gradient of the bias before the scale is applied.
Tensor biased_softmax_backward(OpContext& context, const AttentionMethod& method,
                               const ScoreRowsArgs& args, DType format, const ScoreBias& bias) {
  ScoreRowsArgs unscaled = args;
  unscaled.problem.scale = 1;
  unscaled.out = {};
  softmax_backward(context, method, unscaled, format);
  if (bias.d_table)
    score_bias_backward(context, {args.problem, bias.relative, args.x, bias.d_table});
  if (args.problem.scale == 1 && !args.out) return args.x;
  return score_steps(context, args, ScoreStep::scale_backward);
}

/// Whether attention is one op. A single query, as in generation, has a row of scores: composed it
/// is as fast.
bool is_one_op(const OpContext& context, const AttentionMethod& method,
               const AttentionProblem& problem, const Tensor& q, const Tensor& k,
               const ScoreBias* bias) {
  if (!method.flash) return false;
  return bias == nullptr ||
         (context.ops.biased_attention && problem.max_queries != 1 && q.dim(1) == k.dim(1));
}

AttentionProblem with_bias(const AttentionProblem& problem, const ScoreBias& bias) {
  AttentionProblem biased = problem;
  biased.bias = bias.table, biased.relative = bias.relative;
  return biased;
}

}  // namespace

void attend(OpContext& context, const AttentionMethod& method, const AttentionForwardArgs& args,
            const ScoreBias* bias) {
  if (is_one_op(context, method, args.problem, args.q, args.k, bias)) {
    if (bias == nullptr) return attention_forward(context, args);
    AttentionForwardArgs biased = args;
    biased.problem = with_bias(args.problem, *bias);
    return attention_forward(context, biased);
  }
  const Tensor matrix = score_matrix(context, args.problem, args.q);
  // matrix [N, Tq, keys] = q · kᵀ
  score_product(context, {ScoreProduct::scores, args.problem, matrix, args.q, args.k});
  const AttentionProblem problem = add_bias(context, args.problem, matrix, bias);
  const Tensor p = softmax(context, method,
                           {{}, problem, matrix, narrow_matrix(context, problem, args.q), args.lse},
                           args.q.dtype());
  if (problem.dropout > 0) score_rows(context, {ScoreStep::dropout, problem, p});
  // out [Tq, N, D] = p · v
  score_product(context, {ScoreProduct::values, problem, p, args.out, args.v});
}

void attend_backward(OpContext& context, const AttentionMethod& method,
                     const AttentionBackwardArgs& args, const ScoreBias* bias) {
  if (is_one_op(context, method, args.problem, args.q, args.k, bias)) {
    if (bias == nullptr) return attention_backward(context, args);
    AttentionBackwardArgs biased = args;
    biased.problem = with_bias(args.problem, *bias);
    biased.d_bias = bias->d_table;
    return attention_backward(context, biased);
  }
  const AttentionProblem& problem = args.problem;
  const Tensor p = probabilities_again(context, method, args, bias);  // [N, Tq, keys]
  // dv [Tk, K, D] += pᵀ · d_out, p with dropout
  if (problem.dropout > 0) {
    const Tensor dropped = score_matrix(context, problem, args.q, p.dtype());
    score_rows(context, {ScoreStep::dropout, problem, p, dropped});
    score_product(context, {ScoreProduct::keys, problem, dropped, args.d_out, args.dv});
  } else {
    score_product(context, {ScoreProduct::keys, problem, p, args.d_out, args.dv});
  }
  // gradient = d_out · vᵀ, then through dropout and softmax
  Tensor gradient = score_matrix(context, problem, args.q);  // [N, Tq, keys]
  score_product(context, {ScoreProduct::scores, problem, gradient, args.d_out, args.v});
  if (problem.dropout > 0) score_rows(context, {ScoreStep::dropout, problem, gradient});
  const ScoreRowsArgs through{.problem = problem,
                              .x = gradient,
                              .out = narrow_matrix(context, problem, args.q),
                              .lse = args.lse,
                              .probabilities = p,
                              .delta = args.delta};
  gradient = bias == nullptr
                 ? softmax_backward(context, method, through, args.q.dtype())
                 : biased_softmax_backward(context, method, through, args.q.dtype(), *bias);
  // dq [Tq, N, D] += gradient · k, dk [Tk, K, D] += gradientᵀ · q
  score_product(context,
                {ScoreProduct::values, problem, gradient, args.dq, args.k, WriteMode::accumulate});
  score_product(context, {ScoreProduct::keys, problem, gradient, args.q, args.dk});
}

}  // namespace viaduct
