#include "nn/attention.h"

#include "base/hash.h"
#include "nn/kv_cache.h"
#include "ops/elementwise.h"
#include "ops/rotary.h"

namespace viaduct {

AttentionSegment::AttentionSegment(AttentionSpec spec, AttentionParts parts, std::string_view path)
    : spec_(spec),
      parts_(std::move(parts)),
      dropout_hash_(hash64(std::string(path) + ".core_attn")) {}

AttentionSegment::Heads AttentionSegment::split(const Tensor& qkv) const {
  const int64_t tokens = qkv.dim(0), q = spec_.heads * spec_.head_dim,
                kv = spec_.kv_heads * spec_.head_dim;
  return {qkv.slice(1, 0, q).view({tokens, spec_.heads, spec_.head_dim}),
          qkv.slice(1, q, kv).view({tokens, spec_.kv_heads, spec_.head_dim}),
          qkv.slice(1, q + kv, kv).view({tokens, spec_.kv_heads, spec_.head_dim})};
}

AttentionProblem AttentionSegment::problem(const RankContext& context, const Batch& batch) const {
  AttentionProblem p;
  p.q_offsets = p.kv_offsets = batch.document_offsets;
  p.window = spec_.window;
  p.scale = spec_.scale;
  p.softcap = spec_.softcap;
  p.dropout = context.training ? spec_.dropout : 0;
  p.dropout_key = {context.seed, dropout_hash_};
  p.query_index = batch.token_index;
  p.max_queries = p.max_keys = batch.max_document;
  return p;
}

Tensor AttentionSegment::core_attention(RankContext& context, const Batch& batch,
                                        const Heads& heads, SavedStore& saved) const {
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

TensorSet AttentionSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                    SavedStore& saved) {
  const Tensor x = in.get(kHidden);
  const Tensor normed = parts_.input_norm.forward(context, x, saved);
  saved.keep(this, "normed", normed);
  Heads heads = split(parts_.qkv.forward(context, normed));
  if (parts_.q_norm) heads.q = parts_.q_norm->forward(context, heads.q, saved);
  if (parts_.k_norm) heads.k = parts_.k_norm->forward(context, heads.k, saved);
  if (parts_.rotary != nullptr) {
    rotary(context.ops, {heads.q, batch.positions, parts_.rotary->cos, parts_.rotary->sin});
    rotary(context.ops, {heads.k, batch.positions, parts_.rotary->cos, parts_.rotary->sin});
  }
  const Tensor attended = core_attention(context, batch, heads, saved);
  Tensor branch = parts_.projection.forward(
      context, attended.view({x.dim(0), spec_.heads * spec_.head_dim}), MemoryTag::activations);
  if (parts_.output_norm) branch = parts_.output_norm->forward(context, branch, saved);
  return TensorSet(kHidden, parts_.residual.forward(context, batch, branch, x));
}

AttentionSegment::Heads AttentionSegment::core_attention_backward(RankContext& context,
                                                                  const Batch& batch,
                                                                  const Tensor& d_out,
                                                                  SavedStore& saved) const {
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

TensorSet AttentionSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const int64_t tokens = d_stream.dim(0);
  Tensor d_branch = parts_.residual.backward(context, batch, d_stream);
  if (parts_.output_norm) {
    const Tensor d_projection = context.activation(d_branch.shape());
    parts_.output_norm->backward(context, d_branch, Tensor(), d_projection, saved);
    d_branch = d_projection;
  }
  saved.keep(this, "d_projection", d_branch);
  const Tensor d_attended = parts_.projection.backward_input(context, d_branch)
                                .view({tokens, spec_.heads, spec_.head_dim});

  const Heads d = core_attention_backward(context, batch, d_attended, saved);
  if (parts_.rotary != nullptr) {
    rotary(context.ops, {d.q, batch.positions, parts_.rotary->cos, parts_.rotary->sin, true});
    rotary(context.ops, {d.k, batch.positions, parts_.rotary->cos, parts_.rotary->sin, true});
  }
  const Tensor d_qkv =
      context.activation({tokens, (spec_.heads + 2 * spec_.kv_heads) * spec_.head_dim});
  const Heads out = split(d_qkv);
  const auto into = [&](const std::optional<Norm>& norm, const Tensor& from, const Tensor& to) {
    copy(context.ops, {from, to});  // to the activation format
    if (norm) norm->backward(context, to, Tensor(), to, saved);
  };
  into(parts_.q_norm, d.q, out.q);
  into(parts_.k_norm, d.k, out.k);
  into(std::nullopt, d.v, out.v);
  saved.keep(this, "d_qkv", d_qkv);

  const Tensor d_normed = parts_.qkv.backward_input(context, d_qkv);
  const Tensor d_in = context.activation(d_stream.shape(), MemoryTag::activations);
  parts_.input_norm.backward(context, d_normed, d_stream, d_in, saved);
  return TensorSet(kHidden, d_in);
}

void AttentionSegment::backward_weight(RankContext& context, const Batch& batch,
                                       SavedStore& saved) {
  const Tensor attended =
      saved.take(this, "out").view({batch.tokens(), spec_.heads * spec_.head_dim});
  parts_.projection.backward_weight(context, attended, saved.take(this, "d_projection"));
  parts_.qkv.backward_weight(context, saved.take(this, "normed"), saved.take(this, "d_qkv"));
}

std::vector<const Parameter*> AttentionSegment::parameters() const {
  std::vector<const Parameter*> list;
  parts_.input_norm.append_parameters(list);
  parts_.qkv.append_parameters(list);
  if (parts_.q_norm) parts_.q_norm->append_parameters(list);
  if (parts_.k_norm) parts_.k_norm->append_parameters(list);
  parts_.projection.append_parameters(list);
  if (parts_.output_norm) parts_.output_norm->append_parameters(list);
  return list;
}

}  // namespace viaduct
