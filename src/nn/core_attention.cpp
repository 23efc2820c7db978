#include "nn/core_attention.h"

#include "base/hash.h"
#include "nn/kv_cache.h"
#include "ops/elementwise.h"

namespace viaduct {

CoreAttention::CoreAttention(AttentionSpec spec, std::string_view path)
    : spec_(spec), dropout_hash_(hash64(std::string(path) + ".core_attn")) {}

AttentionProblem CoreAttention::problem(const RankContext& context, const Batch& batch) const {
  AttentionProblem p;
  p.q_offsets = p.kv_offsets = batch.document_offsets;
  p.window = spec_.window;
  p.scale = spec_.scale;
  p.softcap = spec_.softcap;
  p.dropout = context.training ? spec_.dropout : 0;
  p.dropout_key = {context.seed, dropout_hash_};
  p.first_head = spec_.first_head;
  p.query_index = batch.token_index;
  p.max_queries = p.max_keys = batch.max_document;
  return p;
}

Tensor CoreAttention::forward(RankContext& context, const Batch& batch, const AttentionHeads& heads,
                              SavedStore& saved) const {
  UnitScope unit(saved, "core_attn");
  AttentionForwardArgs args;
  args.problem = problem(context, batch);
  args.q = heads.q, args.k = heads.k, args.v = heads.v;
  if (context.cache != nullptr) {
    const auto cached = context.cache->append(context.ops, spec_.layer, heads.k, heads.v);
    args.k = cached.k, args.v = cached.v;
    args.problem.kv_offsets = cached.offsets;
    args.problem.diagonal = cached.diagonal;
    args.problem.max_keys = cached.k.dim(0);
  }
  args.out = context.activation(args.q.shape());
  args.lse = context.statistic({spec_.heads, args.q.dim(0)});
  attention_forward(context.ops, args);
  saved.keep(this, "q", args.q);
  saved.keep(this, "k", args.k);
  saved.keep(this, "v", args.v);
  saved.keep(this, "out", args.out);
  saved.keep(this, "lse", args.lse);
  return args.out;
}

AttentionHeads CoreAttention::backward(RankContext& context, const Batch& batch,
                                       const Tensor& d_out, SavedStore& saved) const {
  AttentionBackwardArgs args;
  args.problem = problem(context, batch);
  args.q = saved.take(this, "q");
  args.k = saved.take(this, "k");
  args.v = saved.take(this, "v");
  args.d_out = d_out;
  args.lse = saved.take(this, "lse");
  args.delta = context.statistic(args.lse.shape(), MemoryTag::activations);
  attention_delta(context.ops, {saved.get(this, "out"), d_out, args.delta});
  args.dq = context.statistic(args.q.shape(), MemoryTag::activations);
  args.dk = context.statistic(args.k.shape(), MemoryTag::activations);
  args.dv = context.statistic(args.v.shape(), MemoryTag::activations);
  for (const Tensor& gradient : {args.dq, args.dk, args.dv}) fill(context.ops, {gradient, 0});
  attention_backward(context.ops, args);
  return {args.dq, args.dk, args.dv};
}

}  // namespace viaduct
