#include "nn/attention_method.h"

#include "ops/checks.h"
#include "ops/score_matrix.h"

namespace viaduct {
namespace {

/// [heads, queries, keys of the longest document].
Tensor score_matrix(OpContext& context, const AttentionProblem& problem, const Tensor& q) {
  return context.allocate(accumulator_dtype(q.dtype()), {q.dim(1), q.dim(0), problem.max_keys},
                          MemoryTag::activations);
}

void softmax(OpContext& context, const AttentionMethod& method, ScoreSoftmaxArgs args) {
  if (method.masked_softmax_fusion) return score_softmax(context, args);
  for (const ScoreSteps step : {ScoreSteps::scale, ScoreSteps::mask, ScoreSteps::softmax}) {
    args.steps = step;
    score_softmax(context, args);
  }
}

void softmax_backward(OpContext& context, const AttentionMethod& method,
                      ScoreSoftmaxBackwardArgs args) {
  if (method.masked_softmax_fusion) return score_softmax_backward(context, args);
  for (const ScoreSteps step : {ScoreSteps::softmax, ScoreSteps::scale}) {
    args.steps = step;
    score_softmax_backward(context, args);
  }
}

}  // namespace

void attend(OpContext& context, const AttentionMethod& method, const AttentionForwardArgs& args) {
  if (method.flash) return attention_forward(context, args);
  const AttentionProblem& problem = args.problem;
  const Tensor matrix = score_matrix(context, problem, args.q);
  score_product(context, {ScoreProduct::scores, problem, matrix, args.q, args.k});
  softmax(context, method, {ScoreSteps::all, problem, matrix, args.lse});
  if (problem.dropout > 0) score_dropout(context, {problem, matrix, matrix});
  score_product(context, {ScoreProduct::values, problem, matrix, args.out, args.v});
}

void attend_backward(OpContext& context, const AttentionMethod& method,
                     const AttentionBackwardArgs& args) {
  if (method.flash) return attention_backward(context, args);
  const AttentionProblem& problem = args.problem;
  const Tensor p = score_matrix(context, problem, args.q);
  const Tensor gradient = score_matrix(context, problem, args.q);
  score_product(context, {ScoreProduct::scores, problem, p, args.q, args.k});
  softmax(context, method, {ScoreSteps::all, problem, p, args.lse, true});
  if (problem.dropout > 0) {
    score_dropout(context, {problem, p, gradient});
    score_product(context, {ScoreProduct::keys, problem, gradient, args.d_out, args.dv});
  } else {
    score_product(context, {ScoreProduct::keys, problem, p, args.d_out, args.dv});
  }
  score_product(context, {ScoreProduct::scores, problem, gradient, args.d_out, args.v});
  if (problem.dropout > 0) score_dropout(context, {problem, gradient, gradient});
  softmax_backward(context, method, {ScoreSteps::all, problem, p, gradient, args.lse, args.delta});
  score_product(context,
                {ScoreProduct::values, problem, gradient, args.dq, args.k, WriteMode::accumulate});
  score_product(context, {ScoreProduct::keys, problem, gradient, args.q, args.dk});
}

}  // namespace viaduct
