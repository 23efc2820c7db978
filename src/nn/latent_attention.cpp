#include "nn/latent_attention.h"

#include "nn/branch_end.h"
#include "nn/kv_cache.h"
#include "nn/tensor_exchange.h"
#include "ops/elementwise.h"
#include "ops/heads.h"

namespace viaduct {

LatentAttentionSegment::Compressed LatentAttentionSegment::compress(RankContext& context,
                                                                    const Tensor& normed,
                                                                    SavedStore& saved) const {
  const Tensor down = parts_.down.forward(context, normed, saved);  // [., Cq + C + R]
  const int64_t cq = compressed_queries(), c = compressed();
  Compressed made{normed, {}, down.slice(1, cq + c, rotary_dim())};
  if (parts_.query_norm)
    made.query = parts_.query_norm->forward(context, down.slice(1, 0, cq), saved);
  made.key_value = parts_.key_value_norm.forward(context, down.slice(1, cq, c), saved);
  return made;
}

LatentAttentionSegment::Compressed LatentAttentionSegment::compress_unit(RankContext& context,
                                                                         const Tensor& normed,
                                                                         SavedStore& saved) const {
  const auto again = [](const LatentAttentionSegment& self, RankContext& rank, const Batch&,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    const Compressed made = self.compress(rank, inputs[0], store);
    return std::vector{made.query, made.key_value, made.key_rotary};
  };
  ReplayableUnit scope(saved, unit::qkv_linear, {normed}, {*this, again});
  const Compressed made = compress(context, normed, saved);
  scope.made({made.query, made.key_value, made.key_rotary});
  return made;
}

void LatentAttentionSegment::rotate(RankContext& context, const Batch& batch, const Tensor& rotary,
                                    bool inverse) const {
  const Tensor rotated =
      parts_.rotary.apply(context.ops, batch.positions, rotary, MemoryTag::activations, inverse);
  if (!parts_.rotary.fused) copy(context.ops, {rotated, rotary});
}

Tensor LatentAttentionSegment::queries(RankContext& context, const Batch& batch, const Tensor& from,
                                       SavedStore& saved) const {
  const AttentionSpec& spec = core_.spec();
  const Tensor rows = parts_.query.forward(context, from, saved, saved.tag());
  const Tensor q = rows.view({rows.dim(0), spec.heads, spec.head_dim});
  rotate(context, batch, q.slice(2, plain_dim(), rotary_dim()), false);
  return q;
}

AttentionHeads LatentAttentionSegment::keys_and_values(RankContext& context,
                                                       const Tensor& compressed,
                                                       const Tensor& rotary,
                                                       SavedStore& saved) const {
  const AttentionSpec& spec = core_.spec();
  const int64_t plain = plain_dim();
  const Tensor rows = parts_.key_value.forward(context, compressed, saved, saved.tag());
  const Tensor both = rows.view({rows.dim(0), spec.heads, plain + spec.value_dim});
  const Tensor k = context.activation({rows.dim(0), spec.heads, spec.head_dim}, saved.tag());
  copy(context.ops, {both.slice(2, 0, plain), k.slice(2, 0, plain)});
  repeat_heads(context.ops, {rotary, k.slice(2, plain, rotary_dim())});
  return {{}, k, both.slice(2, plain, spec.value_dim)};
}

AttentionHeads LatentAttentionSegment::expand(RankContext& context, const Batch& batch,
                                              const Compressed& from, SavedStore& saved) const {
  Tensor rotary = from.key_rotary;
  if (stream_is_cut(context)) {  // a collective reads dense memory
    rotary = context.activation(rotary.shape(), MemoryTag::activations);
    copy(context.ops, {from.key_rotary, rotary});
  }
  rotary = gather_stream(context, rotary);  // [T, R]
  AttentionHeads heads = keys_and_values(context, from.key_value, rotary, saved);
  rotate(context, batch, heads.k.slice(2, plain_dim(), rotary_dim()), false);
  heads.q = queries(context, batch, from.query, saved);
  return core_.prepare(context, heads, saved);
}

AttentionHeads LatentAttentionSegment::expand_unit(RankContext& context, const Batch& batch,
                                                   const Compressed& from,
                                                   SavedStore& saved) const {
  const auto again = [](const LatentAttentionSegment& self, RankContext& rank, const Batch& rows,
                        SavedStore& store, const std::vector<Tensor>& in) {
    return self.expand(rank, rows, {in[0], in[1], in[2]}, store).tensors();
  };
  ReplayableUnit scope(saved, unit::mla_up_proj, {from.query, from.key_value, from.key_rotary},
                       {*this, again});
  const AttentionHeads heads = expand(context, batch, from, saved);
  scope.made(heads.tensors());
  return heads;
}

Tensor LatentAttentionSegment::attend_cached(RankContext& context, const Batch& batch,
                                             const Compressed& from, SavedStore& saved) const {
  const int64_t tokens = batch.tokens();
  const Tensor own = context.activation({from.key_value.dim(0), rotary_dim()});
  copy(context.ops, {from.key_rotary, own});
  const Tensor rotary = gather_stream(context, own).view({tokens, 1, rotary_dim()});
  rotate(context, batch, rotary, false);
  KeyValueCache::View cached = context.cache->append(
      context.ops, core_.spec().layer,
      gather_stream(context, from.key_value).view({tokens, 1, compressed()}), rotary);
  const int64_t rows = cached.k.dim(0);
  // Every tensor rank has all cached rows: the product gathers none.
  LayerSettings of_whole_rows = context.settings;
  of_whole_rows.sequence_parallel = false;
  RankContext whole{.ops = context.ops,
                    .weights = context.weights,
                    .groups = context.groups,
                    .settings = of_whole_rows};
  const AttentionHeads all = keys_and_values(whole, cached.k.view({rows, compressed()}),
                                             cached.v.view({rows, rotary_dim()}), saved);
  cached.k = all.k, cached.v = all.v;
  return core_.attend_cached(context, batch, queries(context, batch, from.query, saved), cached);
}

TensorSet LatentAttentionSegment::forward(RankContext& context, const Batch& batch,
                                          const TensorSet& in, SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H]
  const Tensor normed = parts_.input_norm.forward_unit(unit::attn_norm, context, x, saved);
  const Compressed from = compress_unit(context, normed, saved);
  const auto as_rows = [](const Tensor& heads) {
    return Operand(heads.view({heads.dim(0), heads.dim(1) * heads.dim(2)}));
  };
  const Operand attended =  // [T, N · Dv]
      context.cache != nullptr
          ? as_rows(attend_cached(context, batch, from, saved))
          : core_.forward(context, batch, expand_unit(context, batch, from, saved), saved);
  const UnitScope scope(saved, unit::attn_proj);
  const std::optional<Norm> no_norm;
  return TensorSet(
      kHidden, end_branch(context, batch, {parts_.projection, no_norm, parts_.residual}, attended,
                          x, saved, saved.output_tag()));
}

TensorSet LatentAttentionSegment::backward_input(RankContext& context, const Batch& batch,
                                                 const TensorSet& d_out, SavedStore& saved) {
  const AttentionSpec& spec = core_.spec();
  const Tensor d_stream = d_out.get(kHidden);  // [stream tokens, H]
  const Tensor d_branch =
      parts_.residual.backward(context, batch, d_stream, context.settings.precision.activation);
  const int64_t tokens = batch.tokens(), plain = plain_dim(), rotary = rotary_dim();
  // d_attended [T, N, Dv] = d_branch · W_projection
  const Tensor d_attended = parts_.projection.backward_input(context, d_branch, saved)
                                .view({tokens, spec.heads, spec.value_dim});
  const AttendedGradient d_heads = core_.begin_backward(context, d_attended, saved);
  const AttentionHeads d = core_.backward(context, batch, d_heads, saved);

  const Tensor d_query = context.activation({tokens, spec.heads, spec.head_dim});
  rotate(context, batch, d.q.slice(2, plain, rotary), true);
  copy(context.ops, {d.q, d_query});  // to the activation format
  const Tensor d_both = context.activation({tokens, spec.heads, plain + spec.value_dim});
  copy(context.ops, {d.k.slice(2, 0, plain), d_both.slice(2, 0, plain)});
  copy(context.ops, {d.v, d_both.slice(2, plain, spec.value_dim)});
  // The rotary part of the keys: over the heads of all tensor ranks, which have the same rotation.
  const Tensor d_rotary = context.statistic({tokens, rotary}, MemoryTag::activations);
  sum_heads(context.ops, {d.k.slice(2, plain, rotary), d_rotary});
  rotate(context, batch, d_rotary.view({tokens, 1, rotary}), true);
  const Tensor d_key_rotary = reduce_to_stream(context, d_rotary, MemoryTag::activations);

  // To the stream's rows: d_query · W [., Cq] (or [., H]) and d_both · W [., C].
  const Tensor d_from_query = parts_.query.backward_input(
      context, d_query.view({tokens, spec.heads * spec.head_dim}), saved);
  const Tensor d_from_both = parts_.key_value.backward_input(
      context, d_both.view({tokens, spec.heads * (plain + spec.value_dim)}), saved);
  const int64_t cq = compressed_queries(), c = compressed();
  const Tensor d_down = context.activation({d_stream.dim(0), parts_.down.outputs()});
  if (parts_.query_norm)
    parts_.query_norm->backward(context, d_from_query, Tensor(), d_down.slice(1, 0, cq), saved);
  parts_.key_value_norm.backward(context, d_from_both, Tensor(), d_down.slice(1, cq, c), saved);
  copy(context.ops, {d_key_rotary, d_down.slice(1, cq + c, rotary)});

  const Tensor d_normed = parts_.down.backward_input(context, d_down, saved);  // [., H]
  if (!parts_.query_norm) add(context.ops, {d_normed, d_from_query, d_normed});
  const Tensor d_in = context.stream(d_stream.shape(), MemoryTag::activations);
  parts_.input_norm.backward(context, d_normed, d_stream, d_in, saved);
  return TensorSet(kHidden, d_in);
}

void LatentAttentionSegment::backward_weight(RankContext& context, const Batch&,
                                             SavedStore& saved) {
  parts_.projection.backward_weight(context, saved);
  parts_.query.backward_weight(context, saved);
  parts_.key_value.backward_weight(context, saved);
  parts_.down.backward_weight(context, saved);
}

std::vector<const Parameter*> LatentAttentionSegment::parameters() const {
  std::vector<const Parameter*> list;
  parts_.input_norm.append_parameters(list);
  parts_.down.append_parameters(list);
  if (parts_.query_norm) parts_.query_norm->append_parameters(list);
  parts_.key_value_norm.append_parameters(list);
  parts_.key_value.append_parameters(list);
  parts_.query.append_parameters(list);
  parts_.projection.append_parameters(list);
  return list;
}

}  // namespace viaduct
