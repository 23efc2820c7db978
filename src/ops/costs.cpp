#include "ops/costs.h"

#include <algorithm>

#include "ops/make_cost.h"

namespace viaduct {
namespace {

/// Operations per element; an exponential counts as 12.
double activation_flops(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return 36;
    case ActivationKind::gelu_tanh:
      return 22;
    case ActivationKind::quick_gelu:
    case ActivationKind::silu:
      return 16;
    case ActivationKind::relu:
      return 1;
    case ActivationKind::squared_relu:
      return 2;
  }
  return 0;
}

constexpr double kXieluFlops = 18;  // of which an exponential is 12

double forward_flops(ActivationKind kind, bool gated) {
  return activation_flops(kind) + (gated ? 1 : 0);
}

double backward_flops(ActivationKind kind, bool gated) {
  return activation_flops(kind) + (gated ? 8 : 6);
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

// Operations per column of a softmax: subtraction, exponential (a polynomial of degree 7) and sum.
constexpr double kSoftmaxFlops = 20;

}  // namespace

void add_vector_flops(Cost& cost, DType dtype, double flops) {
  const FlopFormat format = dtype == DType::f64 ? FlopFormat::f64 : FlopFormat::f32;
  cost.flops[static_cast<size_t>(format)] += flops;
}

void move_flops(Cost& cost, FlopFormat to) {
  double& from = cost.flops[static_cast<size_t>(FlopFormat::f32)];
  const double moved = from;
  from = 0;
  cost.flops[static_cast<size_t>(to)] += moved;
}

Cost cost_of(const GemmArgs& args) {
  const int64_t depth = args.form == GemmForm::weight_gradient ? args.a.dim(0) : args.a.dim(1);
  // In the gradient of a gated activation c has more columns than the product.
  const int64_t columns = args.epilogue.raised ? args.b.dim(1) : args.c.dim(1);
  Cost cost;
  add_vector_flops(cost, args.a.dtype(),
                   2.0 * static_cast<double>(args.c.dim(0) * columns) * static_cast<double>(depth));
  cost.bytes_read = args.a.bytes() + args.b.bytes() + bytes_of(args.bias) +
                    (args.mode == WriteMode::accumulate ? args.c.bytes() : 0);
  cost.bytes_written = args.c.bytes();
  return cost;
}

Cost epilogue_cost(const GemmArgs& args) {
  const GemmEpilogue& epilogue = args.epilogue;
  double flops = 0;
  if (epilogue.residual) flops = count(args.c);
  if (epilogue.activated)
    flops = count(epilogue.activated) * forward_flops(epilogue.activation, epilogue.gated);
  if (epilogue.raised) {
    flops = static_cast<double>(args.a.dim(0) * args.b.dim(1)) *
            backward_flops(epilogue.activation, epilogue.gated);
  }
  Cost cost = make_cost(args.c.dtype(), flops, {&epilogue.residual, &epilogue.raised},
                        {&epilogue.activated});
  cost += cost_of(epilogue.forms, epilogue.activated);
  return cost;
}

Cost cost_of(const ColumnSumArgs& args) {
  Cost cost = make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
  if (args.mode == WriteMode::accumulate) cost.bytes_read += args.out.bytes();
  return cost;
}

Cost cost_of(const BiasAddArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.x, &args.bias}, {&args.out});
}

Cost cost_of(const NormForwardArgs& args) {
  Cost cost = make_cost(args.x.dtype(), count(args.x) * (args.kind == NormKind::layer_norm ? 7 : 4),
                        {&args.x, &args.weight, &args.bias}, {&args.y, &args.mean, &args.rstd});
  cost += cost_of(args.forms, args.y);
  return cost;
}

Cost cost_of(const NormBackwardArgs& args) {
  return make_cost(args.x.dtype(), count(args.x) * (args.kind == NormKind::layer_norm ? 14 : 12),
                   {&args.dy, &args.x, &args.weight, &args.mean, &args.rstd, &args.dx_add,
                    &args.d_weight, &args.d_bias},
                   {&args.dx, &args.d_weight, &args.d_bias});
}

Cost cost_of(const ActivationForwardArgs& args) {
  Cost cost = make_cost(args.in.dtype(), count(args.out) * forward_flops(args.kind, args.gated),
                        {&args.in}, {&args.out});
  cost += cost_of(args.forms, args.out);
  return cost;
}

Cost cost_of(const ActivationBackwardArgs& args) {
  return make_cost(args.in.dtype(), count(args.d_out) * backward_flops(args.kind, args.gated),
                   {&args.in, &args.d_out}, {&args.d_in});
}

Cost cost_of(const RotaryArgs& args) {
  const int64_t pairs = args.x.dim(0) * args.x.dim(1) * args.cos.dim(1);
  const int64_t rotated = 2 * pairs * dtype_bytes(args.x.dtype());
  Cost cost = make_cost(args.x.dtype(), 6.0 * static_cast<double>(pairs), {&args.positions}, {});
  cost.bytes_read += rotated + 2 * args.x.dim(0) * args.cos.dim(1) * dtype_bytes(args.cos.dtype());
  cost.bytes_written = rotated;
  return cost;
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

Cost cost_of(const XieluForwardArgs& args) {
  return make_cost(args.in.dtype(), kXieluFlops * count(args.in),
                   {&args.in, &args.alpha_p, &args.alpha_n}, {&args.out});
}

Cost cost_of(const XieluBackwardArgs& args) {
  return make_cost(args.in.dtype(), 2 * kXieluFlops * count(args.in),
                   {&args.in, &args.d_out, &args.alpha_p, &args.alpha_n}, {&args.d_in});
}

Cost cost_of(const AttentionSinkArgs& args) {
  Cost cost = make_cost(args.out.dtype(), count(args.out) + 2 * kSoftmaxFlops * count(args.lse),
                        {&args.sink}, {&args.out, &args.lse});
  cost.bytes_read += cost.bytes_written;
  return cost;
}

Cost cost_of(const AttentionSinkBackwardArgs& args) {
  return make_cost(args.lse.dtype(), kSoftmaxFlops * count(args.lse),
                   {&args.lse, &args.delta, &args.sink, &args.d_sink}, {&args.d_sink});
}

Cost cost_of(const RepeatHeadsArgs& args) {
  return make_cost(args.out.dtype(), 0, {&args.x}, {&args.out});
}

Cost cost_of(const SumHeadsArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const CombineRowsBackwardArgs& args) {
  const DType dtype = args.d_rows.dtype();
  const int64_t moved = args.position.elements() * args.d_rows.dim(1);
  const int64_t bytes = moved * dtype_bytes(dtype);
  Cost cost = make_cost(dtype, (args.rows ? 3.0 : 1.0) * static_cast<double>(moved),
                        {&args.d_out, &args.position, &args.weight}, {&args.d_weight});
  cost.bytes_read += args.rows ? bytes : 0;
  cost.bytes_written += bytes;
  return cost;
}

Cost cost_of(const RowDotsArgs& args) {
  Cost cost =
      make_cost(args.x.dtype(), 2 * count(args.x), {&args.x, &args.y, &args.offsets}, {&args.out});
  if (args.mode == WriteMode::accumulate) cost.bytes_read += args.out.bytes();
  return cost;
}

Cost cost_of(const CombineWeightsBackwardArgs& args) {
  return make_cost(args.dots.dtype(), count(args.position) + count(args.weight),
                   {&args.dots, &args.position, &args.weight}, {&args.d_weight});
}

Cost cost_of(const ExpertBiasArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x, &args.bias, &args.offsets}, {&args.x});
}

Cost cost_of(const ExpertBiasBackwardArgs& args) {
  return make_cost(args.dy.dtype(), count(args.dy), {&args.dy, &args.offsets, &args.d_bias},
                   {&args.d_bias});
}

Cost cost_of(const EmbeddingForwardArgs& args) {
  Cost cost = make_cost(args.weight.dtype(), count(args.out), {&args.ids}, {&args.out});
  cost.bytes_read += args.out.elements() * dtype_bytes(args.weight.dtype()) +
                     (args.mode == WriteMode::accumulate ? args.out.bytes() : 0);
  return cost;
}

Cost cost_of(const EmbeddingBackwardArgs& args) {
  Cost cost = make_cost(args.d_out.dtype(), 2 * count(args.d_out), {&args.ids, &args.d_out}, {});
  const int64_t touched = args.d_out.elements() * dtype_bytes(args.d_weight.dtype());
  cost.bytes_read += touched;
  cost.bytes_written = touched + (args.mode == WriteMode::assign ? args.d_weight.bytes() : 0);
  return cost;
}

Cost cost_of(const CrossEntropyForwardArgs& args) {
  return make_cost(args.logits.dtype(),
                   kSoftmaxFlops * static_cast<double>(args.logits.dim(0) * args.columns),
                   {&args.logits, &args.targets}, {&args.lse, &args.target_logit});
}

Cost cost_of(const CrossEntropyBackwardArgs& args) {
  return make_cost(args.logits.dtype(),
                   kSoftmaxFlops * static_cast<double>(args.logits.dim(0) * args.columns),
                   {&args.logits, &args.targets, &args.lse, &args.weight}, {&args.out});
}

Cost cost_of(const LseShareArgs& args) {
  return make_cost(args.lse.dtype(), kSoftmaxFlops * count(args.lse), {&args.lse, &args.lse},
                   {&args.lse});
}

Cost cost_of(const LseJoinArgs& args) {
  return make_cost(args.lse.dtype(), kSoftmaxFlops * count(args.lse), {&args.lse, &args.lse},
                   {&args.lse});
}

Cost cost_of(const AddArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.a, &args.b}, {&args.out});
}

Cost cost_of(const MultiplyArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.a, &args.b}, {&args.out});
}

Cost cost_of(const CopyArgs& args) {
  const bool accumulate = args.mode == WriteMode::accumulate;
  Cost cost = make_cost(args.to.dtype(), accumulate ? count(args.to) : 0, {&args.from}, {&args.to});
  if (accumulate) cost.bytes_read += args.to.bytes();
  return cost;
}

Cost cost_of(const SumRowsArgs& args) {
  return make_cost(args.out.dtype(), count(args.x), {&args.x}, {&args.out});
}

Cost cost_of(const ScaleArgs& args) {
  return make_cost(args.out.dtype(), count(args.out), {&args.x}, {&args.out});
}

Cost cost_of(const FillArgs& args) {
  return make_cost(args.out.dtype(), 0, {}, {&args.out});
}

Cost cost_of(const DropoutArgs& args) {
  return make_cost(args.out.dtype(), 2 * count(args.out),
                   {&args.x, &args.residual, &args.token_index}, {&args.out});
}

Cost cost_of(const RandomNormalArgs& args) {
  return make_cost(DType::f64, 40 * count(args.out), {}, {&args.out});
}

}  // namespace viaduct
