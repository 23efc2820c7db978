#include "nn/attention_method.h"

#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/score_matrix.h"

namespace viaduct {
namespace {

/// [heads, queries, keys of the longest document].
Tensor score_matrix(OpContext& context, const AttentionProblem& problem, const Tensor& q) {
  return context.allocate(accumulator_dtype(q.dtype()), {q.dim(1), q.dim(0), problem.max_keys},
                          MemoryTag::activations);
}

/// Rounds the matrix to the format of a softmax that is not in FP32.
void round(OpContext& context, const AttentionMethod& method, const Tensor& matrix, DType format) {
  if (method.softmax_in_fp32 || format == matrix.dtype()) return;
  const Tensor narrow = context.allocate(format, matrix.shape(), MemoryTag::activations);
  copy(context, {matrix, narrow});
  copy(context, {narrow, matrix});
}

void softmax(OpContext& context, const AttentionMethod& method, ScoreSoftmaxArgs args,
             DType format) {
  if (method.masked_softmax_fusion && method.softmax_in_fp32) return score_softmax(context, args);
  for (const ScoreSteps step : {ScoreSteps::scale, ScoreSteps::mask, ScoreSteps::softmax}) {
    args.steps = step;
    score_softmax(context, args);
    if (step != ScoreSteps::mask) round(context, method, args.matrix, format);
  }
}

void softmax_backward(OpContext& context, const AttentionMethod& method,
                      ScoreSoftmaxBackwardArgs args, DType format) {
  if (method.masked_softmax_fusion && method.softmax_in_fp32)
    return score_softmax_backward(context, args);
  round(context, method, args.gradient, format);
  for (const ScoreSteps step : {ScoreSteps::softmax, ScoreSteps::scale}) {
    args.steps = step;
    score_softmax_backward(context, args);
    round(context, method, args.gradient, format);
  }
}

}  // namespace

void attend(OpContext& context, const AttentionMethod& method, const AttentionForwardArgs& args) {
  if (method.flash) return attention_forward(context, args);
  const AttentionProblem& problem = args.problem;
  const Tensor matrix = score_matrix(context, problem, args.q);
  // matrix [N, Tq, keys] = q · kᵀ
  score_product(context, {ScoreProduct::scores, problem, matrix, args.q, args.k});
  softmax(context, method, {ScoreSteps::all, problem, matrix, args.lse}, args.q.dtype());
  if (problem.dropout > 0) score_dropout(context, {problem, matrix, matrix});
  // out [Tq, N, D] = matrix · v
  score_product(context, {ScoreProduct::values, problem, matrix, args.out, args.v});
}

void attend_backward(OpContext& context, const AttentionMethod& method,
                     const AttentionBackwardArgs& args) {
  if (method.flash) return attention_backward(context, args);
  const AttentionProblem& problem = args.problem;
  const Tensor p = score_matrix(context, problem, args.q);         // [N, Tq, keys]
  const Tensor gradient = score_matrix(context, problem, args.q);  // [N, Tq, keys]
  // p = softmax(q · kᵀ)
  score_product(context, {ScoreProduct::scores, problem, p, args.q, args.k});
  softmax(context, method, {ScoreSteps::all, problem, p, args.lse, true}, args.q.dtype());
  // dv [Tk, K, D] += pᵀ · d_out, p with dropout
  if (problem.dropout > 0) {
    score_dropout(context, {problem, p, gradient});
    score_product(context, {ScoreProduct::keys, problem, gradient, args.d_out, args.dv});
  } else {
    score_product(context, {ScoreProduct::keys, problem, p, args.d_out, args.dv});
  }
  // gradient = d_out · vᵀ, then through dropout and softmax
  score_product(context, {ScoreProduct::scores, problem, gradient, args.d_out, args.v});
  if (problem.dropout > 0) score_dropout(context, {problem, gradient, gradient});
  softmax_backward(context, method, {ScoreSteps::all, problem, p, gradient, args.lse, args.delta},
                   args.q.dtype());
  // dq [Tq, N, D] += gradient · k, dk [Tk, K, D] += gradientᵀ · q
  score_product(context,
                {ScoreProduct::values, problem, gradient, args.dq, args.k, WriteMode::accumulate});
  score_product(context, {ScoreProduct::keys, problem, gradient, args.q, args.dk});
}

}  // namespace viaduct
