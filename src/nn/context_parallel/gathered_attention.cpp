#include "nn/context_parallel/gathered_attention.h"

#include "nn/context_parallel/head_exchange.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// Views of rows [R, K (D + Dv)], keys and values side by side, as [R, K, D] and [R, K, Dv].
AttentionHeads split_key_values(const Tensor& rows, const AttentionHeads& heads) {
  const int64_t kv_heads = heads.k.dim(1), width = heads.k.dim(2), values = heads.v.dim(2);
  return {{},
          rows.slice(1, 0, kv_heads * width).view({rows.dim(0), kv_heads, width}),
          rows.slice(1, kv_heads * width, kv_heads * values).view({rows.dim(0), kv_heads, values})};
}

/// Keys and values of all ranks in document order, [cp · T, K, D] and [cp · T, K, Dv].
AttentionHeads gather_key_values(RankContext& context, Communicator& group,
                                 const ContextLayout& layout, const AttentionHeads& heads) {
  const int64_t tokens = heads.k.dim(0), kv_heads = heads.k.dim(1);
  const Tensor all = context.ops.allocate(  // [cp · T, K (D + Dv)]
      heads.k.dtype(), {group.size() * tokens, kv_heads * (heads.k.dim(2) + heads.v.dim(2))},
      MemoryTag::activations);
  const Tensor mine = all.slice(0, group.rank() * tokens, tokens);
  const AttentionHeads own = split_key_values(mine, heads);
  copy(context.ops, {heads.k, own.k});
  copy(context.ops, {heads.v, own.v});
  group.all_gather(mine, all).wait();
  return split_key_values(gather_rows(context.ops, all, layout.heads.joined_order), heads);
}

/// One half of the queries against their whole documents; the other half gets no keys.
AttentionProblem half_problem(const AttentionProblem& base, const ContextLayout& layout, int half) {
  AttentionProblem p = base;
  p.q_offsets = layout.ring.halves;
  p.kv_offsets = half == 0 ? layout.heads.all_none : layout.heads.none_all;
  p.diagonal = half == 0 ? layout.first_diagonal : layout.second_diagonal;
  p.query_index = layout.ring.query_index;
  p.max_queries = layout.ring.max_document / 2;
  p.max_keys = layout.heads.max_document;
  if (p.window == 0) p.visible_pairs = half == 0 ? layout.first_pairs : layout.second_pairs;
  return p;
}

}  // namespace

AttentionResult gathered_forward(RankContext& context, Communicator& group,
                                 const ContextLayout& layout, const AttentionMethod& method,
                                 const AttentionProblem& base, const AttentionHeads& heads,
                                 const SavedStore& saved, const RelativeBias& bias) {
  const AcquiredBias acquired(context, bias);
  const AttentionHeads kv = gather_key_values(context, group, layout, heads);
  const Shape shape{heads.q.dim(0), heads.q.dim(1), heads.v.dim(2)};
  AttentionResult whole;
  for (int half = 0; half < 2; ++half) {
    AttentionForwardArgs args;
    args.problem = half_problem(base, layout, half);
    args.q = heads.q;
    args.k = kv.k, args.v = kv.v;
    args.out =
        allocate_attended(context, method, shape, half == 0 ? saved.tag() : MemoryTag::activations);
    args.lse = context.statistic({heads.q.dim(1), heads.q.dim(0)},
                                 half == 0 ? saved.statistic_tag() : MemoryTag::activations);
    attend(context.ops, method, args, acquired.get());
    if (half == 0) {
      whole = {args.out, args.lse};
    } else {
      // Every query has keys in one of the two results: the other is 0 with weight 0.
      attention_merge(context.ops, {whole.out, whole.lse, args.out, args.lse});
    }
  }
  return whole;
}

AttentionHeads gathered_backward(RankContext& context, Communicator& group,
                                 const ContextLayout& layout, const AttentionMethod& method,
                                 const AttentionProblem& base, const AttentionHeads& heads,
                                 const AttendedGradient& d_out, const Tensor& lse,
                                 const RelativeBias& bias) {
  AcquiredBias acquired(context, bias, true);
  const auto zeros = [&](const Shape& shape) {
    const Tensor tensor = context.statistic(shape, MemoryTag::activations);
    fill(context.ops, {tensor, 0});
    return tensor;
  };
  const int64_t tokens = heads.k.dim(0), kv_heads = heads.k.dim(1);
  const AttentionHeads kv = gather_key_values(context, group, layout, heads);
  AttentionBackwardArgs args;
  args.q = heads.q, args.lse = lse;
  args.d_out = d_out.values, args.d_out_scale = d_out.scale, args.delta = d_out.delta;
  args.k = kv.k, args.v = kv.v;
  args.dq = zeros(heads.q.shape());
  args.dk = zeros({group.size() * tokens, kv_heads, heads.k.dim(2)});  // += per half
  args.dv = zeros({group.size() * tokens, kv_heads, heads.v.dim(2)});
  for (int half = 0; half < 2; ++half) {
    args.problem = half_problem(base, layout, half);
    attend_backward(context.ops, method, args, acquired.get());
  }
  acquired.done();
  AttentionHeads gradients{args.dq, {}, {}};
  const auto scatter = [&](const Tensor& all, Tensor& part, Tensor& mine) {
    part = gather_rows(context.ops, all, layout.heads.parted_order);
    mine = context.statistic({tokens, kv_heads, all.dim(2)}, MemoryTag::activations);
    return group.reduce_scatter(part, mine);
  };
  Tensor dk_parts, dv_parts;
  CommHandle dk = scatter(args.dk, dk_parts, gradients.k);
  CommHandle dv = scatter(args.dv, dv_parts, gradients.v);
  dk.wait();
  dv.wait();
  return gradients;
}

}  // namespace viaduct
