#include "ops/attention.h"

#include <algorithm>

#include "ops/attention_checks.h"
#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_heads(std::string_view op, std::string_view argument, const Tensor& tensor,
                 const Shape& shape, DType dtype) {
  check_shape(op, argument, tensor, shape);
  check_dtype(op, argument, tensor, {dtype});
  check_dense_rows(op, argument, tensor);
}

void check_index(std::string_view op, std::string_view argument, const Tensor& tensor,
                 const Shape& shape, DType dtype) {
  check_shape(op, argument, tensor, shape);
  check_dtype(op, argument, tensor, {dtype});
  check_contiguous(op, argument, tensor);
}

bool is_code(DType dtype) {
  return dtype == DType::e4m3 || dtype == DType::e5m2;
}

/// Scales f32 [count] if `of` is codes; none otherwise.
void check_scale(std::string_view op, std::string_view argument, const Tensor& scale, int64_t count,
                 const Tensor& of) {
  VIADUCT_CHECK(ShapeError, scale.defined() == is_code(of.dtype()),
                "{}: {}: expected {} for {}, found {}", op, argument,
                is_code(of.dtype()) ? "scales" : "none", describe(of), describe(scale));
  if (!scale) return;
  check_shape(op, argument, scale, {count});
  check_dtype(op, argument, scale, {DType::f32});
  check_contiguous(op, argument, scale);
}

/// The dtype of sums over elements of `tensor`.
DType sum_dtype(const Tensor& tensor) {
  return is_code(tensor.dtype()) ? DType::f32 : accumulator_dtype(tensor.dtype());
}

void check_bias(std::string_view op, const OpTable& ops, const AttentionProblem& problem,
                const Tensor& q, const Tensor& k) {
  VIADUCT_CHECK(ShapeError, ops.biased_attention, "{}: {} has no attention with a bias", op,
                ops.traits.name);
  const std::string buckets = relative_buckets_problem(problem.relative);
  VIADUCT_CHECK(ShapeError, buckets.empty(), "{}: relative: {}", op, buckets);
  check_shape(op, "bias", problem.bias, {problem.relative.buckets, q.dim(1)});
  check_floating(op, "bias", problem.bias);
  check_contiguous(op, "bias", problem.bias);
  VIADUCT_CHECK(ShapeError, (problem.bias.dtype() == DType::f64) == (q.dtype() == DType::f64),
                "{}: bias: expected f64 for f64 only, found {} for {}", op, describe(problem.bias),
                describe(q));
  VIADUCT_CHECK(ShapeError, problem.softcap == 0 && !problem.scales && q.dim(1) == k.dim(1),
                "{}: bias: expected no soft cap, no codes, and a key-value head for each query "
                "head, found a cap of {}, {} and {}",
                op, problem.softcap, describe(q), describe(k));
}

void check_inputs(std::string_view op, const OpTable& ops, const AttentionProblem& problem,
                  const Tensor& q, const Tensor& k, const Tensor& v) {
  check_rank(op, "q", q, 3);
  if (q.dtype() != DType::e4m3) check_floating(op, "q", q);
  check_scale(op, "scales", problem.scales, 3, q);
  check_dense_rows(op, "q", q);
  check_rank(op, "k", k, 3);
  check_rank(op, "v", v, 3);
  VIADUCT_CHECK(ShapeError, k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
                "{}: k: expected a number of heads that divides {}, found {}", op, q.dim(1),
                describe(k));
  check_heads(op, "k", k, {k.dim(0), k.dim(1), q.dim(2)}, q.dtype());
  check_heads(op, "v", v, {k.dim(0), k.dim(1), v.dim(2)}, q.dtype());
  check_attention_problem(op, problem, q.dim(0), k.dim(0));
  if (problem.bias) check_bias(op, ops, problem, q, k);
}

/// Visible (query, key) pairs of all query heads, as given or estimated from the longest runs.
double visible_pairs(const AttentionProblem& problem, const Tensor& q, const Tensor& k) {
  const auto heads = static_cast<double>(q.dim(1));
  if (problem.visible_pairs > 0) return problem.visible_pairs * heads;
  const auto tokens = static_cast<double>(q.dim(0));
  const auto keys = static_cast<double>(problem.max_keys > 0 ? problem.max_keys : k.dim(0));
  const auto queries =
      static_cast<double>(problem.max_queries > 0 ? problem.max_queries : q.dim(0));
  // Query i of the last `queries` positions sees keys − queries + i + 1 keys, on average:
  double seen = problem.causal ? std::max(1.0, keys - (std::min(queries, keys) - 1) / 2) : keys;
  if (problem.window > 0) seen = std::min(seen, static_cast<double>(problem.window));
  return tokens * seen * heads;
}

}  // namespace

void check_attention_problem(std::string_view op, const AttentionProblem& problem, int64_t queries,
                             int64_t keys) {
  check_rank(op, "q_offsets", problem.q_offsets, 1);
  VIADUCT_CHECK(ShapeError, problem.q_offsets.dim(0) >= 1,
                "{}: q_offsets: expected [documents + 1], found {}", op,
                describe(problem.q_offsets));
  check_index(op, "q_offsets", problem.q_offsets, problem.q_offsets.shape(), DType::i32);
  check_index(op, "kv_offsets", problem.kv_offsets, problem.q_offsets.shape(), DType::i32);
  if (problem.diagonal) {
    check_index(op, "diagonal", problem.diagonal, {problem.q_offsets.dim(0) - 1}, DType::i32);
  }
  VIADUCT_CHECK(ShapeError, problem.window >= 0, "{}: window: expected at least 0, found {}", op,
                problem.window);
  VIADUCT_CHECK(ShapeError, problem.softcap >= 0, "{}: softcap: expected at least 0, found {}", op,
                problem.softcap);
  VIADUCT_CHECK(ShapeError, problem.dropout >= 0 && problem.dropout < 1,
                "{}: dropout: expected a probability in [0, 1), found {}", op, problem.dropout);
  if (problem.dropout > 0) {
    check_index(op, "query_index", problem.query_index, {queries}, DType::i64);
    if (problem.key_position)
      check_index(op, "key_position", problem.key_position, {keys}, DType::i32);
  }
}

void check_per_query(std::string_view op, std::string_view argument, const Tensor& tensor,
                     const Tensor& q) {
  check_shape(op, argument, tensor, {q.dim(1), q.dim(0)});
  check_dtype(op, argument, tensor, {sum_dtype(q)});
  check_contiguous(op, argument, tensor);
}

void attention_forward(OpContext& context, const AttentionForwardArgs& args) {
  constexpr std::string_view op = "attention_forward";
  check_inputs(op, context.ops, args.problem, args.q, args.k, args.v);
  const Shape out{args.q.dim(0), args.q.dim(1), args.v.dim(2)};
  if (is_code(args.q.dtype())) {
    check_shape(op, "out", args.out, out);
    check_dtype(op, "out", args.out, {DType::f32, DType::bf16, DType::f16});
    check_dense_rows(op, "out", args.out);
  } else {
    check_heads(op, "out", args.out, out, args.q.dtype());
  }
  check_per_query(op, "lse", args.lse, args.q);
  dispatch(context, op, context.ops.attention_forward, args);
}

void attention_delta(OpContext& context, const AttentionDeltaArgs& args) {
  constexpr std::string_view op = "attention_delta";
  check_rank(op, "out", args.out, 3);
  check_scale(op, "out_scale", args.out_scale, 1, args.out);
  check_scale(op, "d_out_scale", args.d_out_scale, 1, args.d_out);
  if (!args.out_scale) check_floating(op, "out", args.out);
  check_dense_rows(op, "out", args.out);
  check_heads(op, "d_out", args.d_out, args.out.shape(),
              args.d_out_scale ? args.d_out.dtype() : args.out.dtype());
  VIADUCT_CHECK(ShapeError, !args.d_out_scale || args.out.dtype() != DType::f64,
                "{}: d_out: expected f64 beside out in f64, found {}", op, describe(args.d_out));
  check_per_query(op, "delta", args.delta, args.out);
  dispatch(context, op, context.ops.attention_delta, args);
}

void attention_backward(OpContext& context, const AttentionBackwardArgs& args) {
  constexpr std::string_view op = "attention_backward";
  check_inputs(op, context.ops, args.problem, args.q, args.k, args.v);
  const bool codes = is_code(args.q.dtype());
  VIADUCT_CHECK(ShapeError, codes == is_code(args.d_out.dtype()),
                "{}: d_out: expected codes where q is codes, found {} and {}", op,
                describe(args.d_out), describe(args.q));
  check_scale(op, "d_out_scale", args.d_out_scale, 1, args.d_out);
  check_heads(op, "d_out", args.d_out, {args.q.dim(0), args.q.dim(1), args.v.dim(2)},
              codes ? args.d_out.dtype() : args.q.dtype());
  check_per_query(op, "lse", args.lse, args.q);
  check_per_query(op, "delta", args.delta, args.q);
  if (args.out) check_heads(op, "out", args.out, args.d_out.shape(), args.d_out.dtype());
  const auto check_gradient = [&](std::string_view argument, const Tensor& tensor,
                                  const Tensor& of) {
    check_shape(op, argument, tensor, of.shape());
    check_dtype(op, argument, tensor, {sum_dtype(of)});
    check_contiguous(op, argument, tensor);
  };
  check_gradient("dq", args.dq, args.q);
  check_gradient("dk", args.dk, args.k);
  check_gradient("dv", args.dv, args.v);
  if (args.d_bias) {
    VIADUCT_CHECK(ShapeError, args.problem.bias.defined(),
                  "{}: d_bias: expected none without a bias, found {}", op, describe(args.d_bias));
    check_shape(op, "d_bias", args.d_bias, args.problem.bias.shape());
    check_dtype(op, "d_bias", args.d_bias, {sum_dtype(args.q)});
    check_contiguous(op, "d_bias", args.d_bias);
  }
  dispatch(context, op, context.ops.attention_backward, args);
}

void attention_merge(OpContext& context, const AttentionMergeArgs& args) {
  constexpr std::string_view op = "attention_merge";
  check_rank(op, "out", args.out, 3);
  check_floating(op, "out", args.out);
  check_dense_rows(op, "out", args.out);
  check_shape(op, "other_out", args.other_out, args.out.shape());
  check_floating(op, "other_out", args.other_out);
  VIADUCT_CHECK(ShapeError,
                args.out.dtype() == args.other_out.dtype() ||
                    args.out.dtype() == accumulator_dtype(args.other_out.dtype()),
                "{}: out: expected the dtype of other_out or that of its sums, found {} for {}", op,
                describe(args.out), describe(args.other_out));
  check_dense_rows(op, "other_out", args.other_out);
  check_per_query(op, "lse", args.lse, args.out);
  check_per_query(op, "other_lse", args.other_lse, args.out);
  dispatch(context, op, context.ops.attention_merge, args);
}

Cost cost_of(const AttentionForwardArgs& args) {
  return make_cost(args.out.dtype(),
                   2 * visible_pairs(args.problem, args.q, args.k) *
                       static_cast<double>(args.q.dim(2) + args.v.dim(2)),
                   {&args.q, &args.k, &args.v}, {&args.out, &args.lse});
}

Cost cost_of(const AttentionDeltaArgs& args) {
  return make_cost(args.delta.dtype(), 2 * count(args.out), {&args.out, &args.d_out},
                   {&args.delta});
}

Cost cost_of(const AttentionBackwardArgs& args) {
  return make_cost(args.lse.dtype(),
                   2 * visible_pairs(args.problem, args.q, args.k) *
                       static_cast<double>(3 * args.q.dim(2) + 2 * args.v.dim(2)),
                   {&args.q, &args.k, &args.v, &args.d_out, &args.lse, &args.delta, &args.dq,
                    &args.dk, &args.dv},
                   {&args.dq, &args.dk, &args.dv});
}

Cost cost_of(const AttentionMergeArgs& args) {
  Cost cost = make_cost(args.out.dtype(), 3 * count(args.out), {}, {&args.out, &args.lse});
  cost.bytes_read = 2 * cost.bytes_written;
  return cost;
}

}  // namespace viaduct
