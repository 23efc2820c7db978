#include "nn/local_attention.h"

#include <optional>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// The weight of a bias, held for a scope.
class AcquiredBias {
 public:
  AcquiredBias(RankContext& context, const RelativeBias& bias) {
    if (bias.table == nullptr) return;
    table_.emplace(context.weights, *bias.table, WeightUse::elementwise);
    scores_ = {bias.buckets, table_->tensor(), {}};
  }

  /// Null without a bias.
  ScoreBias* get() { return table_ ? &scores_ : nullptr; }

 private:
  std::optional<AcquiredWeight> table_;
  ScoreBias scores_;
};

void check_local(const RankContext& context, const AttentionHeads& heads) {
  const int ranks = context.context_ranks().size();
  VIADUCT_CHECK(ConfigError, ranks == 1,
                "attention that is bidirectional or has a position bias, over {} context ranks: "
                "expected model.context_parallel_size = 1",
                ranks);
  VIADUCT_CHECK(ConfigError, !heads.scales,
                "attention that is bidirectional or has a position bias, of FP8 heads: expected "
                "mixed_precision.fp8_dot_product_attention = false");
}

}  // namespace

AttentionResult local_forward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const SavedStore& saved) {
  check_local(context, heads);
  AcquiredBias acquired(context, bias);
  AttentionForwardArgs args;
  args.problem = problem;
  args.q = heads.q, args.k = heads.k, args.v = heads.v;
  // out [Tq, N, Dv], lse [N, Tq]
  args.out = allocate_attended(context, method, {heads.q.dim(0), heads.q.dim(1), heads.v.dim(2)},
                               saved.tag());
  args.lse = context.statistic({heads.q.dim(1), heads.q.dim(0)}, saved.statistic_tag());
  attend(context.ops, method, args, acquired.get());
  return {args.out, args.lse};
}

AttentionHeads local_backward(RankContext& context, const AttentionMethod& method,
                              const AttentionProblem& problem, const RelativeBias& bias,
                              const AttentionHeads& heads, const AttendedGradient& d_out,
                              const Tensor& lse) {
  check_local(context, heads);
  AcquiredBias acquired(context, bias);
  const bool trains = bias.table != nullptr && bias.table->trained;
  if (trains) acquired.get()->d_table = context.gradients->gradient(*bias.table).tensor;
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
  if (trains) context.gradients->done(*bias.table);
  return {args.dq, args.dk, args.dv};
}

}  // namespace viaduct
