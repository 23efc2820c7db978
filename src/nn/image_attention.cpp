#include "nn/image_attention.h"

#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace viaduct {
namespace {

constexpr MemoryTag kTag = MemoryTag::activations;

/// [T, …] as rows [T, W], contiguous.
Tensor as_rows(RankContext& context, const Tensor& x) {
  const Shape rows{x.dim(0), x.shape().without_first().elements()};
  if (x.is_contiguous()) return x.view(rows);
  const Tensor copied = context.ops.allocate(x.dtype(), x.shape(), kTag);
  copy(context.ops, {x, copied});
  return copied.view(rows);
}

/// Rows of x [T, …] at `places` [R], as [R, …]; 0 where a place is −1.
Tensor take_rows(RankContext& context, const Tensor& x, const Tensor& places) {
  Shape shape = x.shape();
  shape[0] = places.dim(0);
  const Tensor out = context.ops.allocate(x.dtype(), shape, kTag);
  embedding_forward(context.ops, {places, as_rows(context, x),
                                  out.view({shape[0], shape.without_first().elements()}), 0, 1,
                                  WriteMode::assign});
  return out;
}

/// [N, T] as [T, N] and the reverse, contiguous.
Tensor turned(RankContext& context, const Tensor& x) {
  const Tensor out = context.ops.allocate(x.dtype(), {x.dim(1), x.dim(0)}, kTag);
  copy(context.ops, {x.transposed(0, 1), out});
  return out;
}

/// Columns of x [N, T] at `places` [R], as [N, R].
Tensor take_columns(RankContext& context, const Tensor& x, const Tensor& places) {
  return turned(context, take_rows(context, turned(context, x), places));
}

/// x [T, …] with the rows of tokens of images replaced by those of `rows` [R, …].
void put_rows(RankContext& context, const BatchImages::Ahead& ahead, const Tensor& rows,
              const Tensor& x) {
  const Tensor others = take_rows(context, x, ahead.others),
               own = take_rows(context, rows, ahead.place);
  add(context.ops, {others, own, x});
}

AttentionProblem problem_ahead(const AttentionProblem& base, const BatchImages::Ahead& ahead) {
  AttentionProblem problem = base;
  problem.q_offsets = problem.kv_offsets = ahead.offsets;
  problem.diagonal = ahead.diagonal;
  problem.causal = true, problem.window = 0;
  problem.max_queries = problem.max_keys = ahead.longest;
  problem.visible_pairs = 0;
  problem.query_index = {};
  problem.library = false;
  return problem;
}

AttentionHeads take_heads(RankContext& context, const AttentionHeads& heads,
                          const BatchImages::Ahead& ahead) {
  return {take_rows(context, heads.q, ahead.tokens), take_rows(context, heads.k, ahead.tokens),
          take_rows(context, heads.v, ahead.tokens)};
}

}  // namespace

void attend_ahead(RankContext& context, const AttentionMethod& method, const AttentionProblem& base,
                  const BatchImages::Ahead& ahead, const AttentionHeads& heads,
                  AttentionResult& result) {
  const AttentionHeads own = take_heads(context, heads, ahead);
  const int64_t rows = own.q.dim(0), n = own.q.dim(1);
  AttentionForwardArgs args;
  args.problem = problem_ahead(base, ahead);
  args.q = own.q, args.k = own.k, args.v = own.v;
  args.out = context.ops.allocate(own.q.dtype(), {rows, n, own.v.dim(2)}, kTag);
  args.lse = context.statistic({n, rows}, kTag);
  attend(context.ops, method, args);
  const Tensor out = take_rows(context, result.out, ahead.tokens),
               lse = take_columns(context, result.lse, ahead.tokens);
  attention_merge(context.ops, {out, lse, args.out, args.lse});
  put_rows(context, ahead, out, result.out);
  const Tensor by_token = turned(context, result.lse);  // [T, N]
  put_rows(context, ahead, turned(context, lse), by_token);
  copy(context.ops, {by_token.transposed(0, 1), result.lse});
}

void attend_ahead_backward(RankContext& context, const AttentionMethod& method,
                           const AttentionProblem& base, const BatchImages::Ahead& ahead,
                           const AttentionHeads& heads, const AttendedGradient& d_out,
                           const Tensor& lse, const AttentionHeads& d_heads) {
  const AttentionHeads own = take_heads(context, heads, ahead);
  const auto zeros = [&](const Tensor& like) {
    const Tensor gradient = context.statistic(like.shape(), kTag);
    fill(context.ops, {gradient, 0});
    return gradient;
  };
  AttentionBackwardArgs args;
  args.problem = problem_ahead(base, ahead);
  args.q = own.q, args.k = own.k, args.v = own.v;
  args.d_out = take_rows(context, d_out.values, ahead.tokens);
  args.lse = take_columns(context, lse, ahead.tokens);
  args.delta = take_columns(context, d_out.delta, ahead.tokens);
  args.dq = zeros(own.q), args.dk = zeros(own.k), args.dv = zeros(own.v);
  attend_backward(context.ops, method, args);
  for (const auto& [from, to] :
       {std::pair{args.dq, d_heads.q}, {args.dk, d_heads.k}, {args.dv, d_heads.v}}) {
    const Shape all{to.dim(0), to.shape().without_first().elements()};
    // to [T, …] += the rows of `from` at the tokens
    embedding_backward(context.ops, {ahead.tokens, as_rows(context, from), to.view(all), 0, 1,
                                     WriteMode::accumulate});
  }
}

}  // namespace viaduct
