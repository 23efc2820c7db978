#include "nn/local_attention.h"

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

void check_local(const AttentionHeads& heads) {
  VIADUCT_CHECK(ConfigError, !heads.scales,
                "attention that is bidirectional or has a position bias, of FP8 heads: expected "
                "mixed_precision.fp8_dot_product_attention = false");
}

}  // namespace

void attend_biased(RankContext& context, const AttentionMethod& method, const RelativeBias& bias,
                   const AttentionForwardArgs& args) {
  AcquiredBias acquired(context, bias);
  attend(context.ops, method, args, acquired.get());
}

AttentionResult local_forward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const SavedStore& saved) {
  check_local(heads);
  AttentionForwardArgs args;
  args.problem = problem;
  args.q = heads.q, args.k = heads.k, args.v = heads.v;
  // out [Tq, N, Dv], lse [N, Tq]
  args.out = allocate_attended(context, method, {heads.q.dim(0), heads.q.dim(1), heads.v.dim(2)},
                               saved.tag());
  args.lse = context.statistic({heads.q.dim(1), heads.q.dim(0)}, saved.statistic_tag());
  attend_biased(context, method, bias, args);
  return {args.out, args.lse};
}

AttentionHeads local_backward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const AttendedGradient& d_out,
                              const Tensor& lse) {
  check_local(heads);
  AcquiredBias acquired(context, bias, true);
  const auto zeros = [&](const Tensor& like) {
    const Tensor gradient = context.statistic(like.shape(), MemoryTag::activations);
    fill(context.ops, {gradient, 0});
    return gradient;
  };
  AttentionBackwardArgs args;
  args.problem = problem;
  args.q = heads.q, args.k = heads.k, args.v = heads.v;
  args.d_out = d_out.values, args.delta = d_out.delta, args.out = d_out.out;
  args.lse = lse;
  args.dq = zeros(heads.q), args.dk = zeros(heads.k), args.dv = zeros(heads.v);
  attend_backward(context.ops, method, args, acquired.get());
  acquired.done();
  return {args.dq, args.dk, args.dv};
}

}  // namespace viaduct
