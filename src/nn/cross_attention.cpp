#include "nn/cross_attention.h"

#include <utility>

#include "nn/branch_begin.h"
#include "nn/branch_end.h"
#include "nn/cross_cache.h"
#include "nn/encoder_rows.h"
#include "ops/elementwise.h"

namespace viaduct {

CrossAttentionSegment::CrossAttentionSegment(AttentionSpec spec, CrossAttentionParts parts,
                                             std::string_view path, bool last)
    : core_(spec, path, nullptr, parts.projection.weight()),
      parts_(std::move(parts)),
      last_(last) {}

Edge CrossAttentionSegment::inputs(const RankContext& context, const Batch& batch) const {
  const EncoderRows& from = encoder_rows(batch);
  Edge edge{stream_edge(context, batch, parts_.projection.weight()->shape[0])};
  if (from.encodes())
    edge.push_back(encoded_edge(context, from.rows, parts_.key_value.weight()->shape[1],
                                parts_.input_gradient));
  return edge;
}

std::vector<std::string_view> CrossAttentionSegment::outputs() const {
  if (last_) return {kHidden};
  return {kHidden, kEncoded};
}

bool CrossAttentionSegment::makes(std::string_view output, const Batch& batch) const {
  return output != kEncoded || encoder_rows(batch).encodes();
}

std::pair<Tensor, Tensor> CrossAttentionSegment::split(const Tensor& key_value) const {
  const AttentionSpec& spec = core_.spec();
  const int64_t tokens = key_value.dim(0), keys = spec.kv_heads * spec.head_dim,
                values = spec.kv_heads * spec.value_dim;
  return {key_value.slice(1, 0, keys).view({tokens, spec.kv_heads, spec.head_dim}),
          key_value.slice(1, keys, values).view({tokens, spec.kv_heads, spec.value_dim})};
}

Tensor CrossAttentionSegment::key_value(RankContext& context, const Batch& batch,
                                        const Tensor& encoded, SavedStore& saved) const {
  const EncoderTokens tokens(context, batch);
  return parts_.key_value.forward(context, encoded, saved, saved.tag());
}

AttentionHeads CrossAttentionSegment::heads_of(RankContext& context, const Batch& batch,
                                               LinearInput normed, const Tensor& encoded,
                                               SavedStore& saved) const {
  const AttentionSpec& spec = core_.spec();
  const Tensor q = parts_.query.forward(context, std::move(normed), saved, saved.tag());
  const auto [k, v] = split(key_value(context, batch, encoded, saved));
  return core_.prepare(context, {q.view({q.dim(0), spec.heads, spec.head_dim}), k, v}, saved);
}

AttentionHeads CrossAttentionSegment::project(RankContext& context, const Batch& batch,
                                              LinearInput normed, const Tensor& encoded,
                                              SavedStore& saved) const {
  const auto again = [](const CrossAttentionSegment& self, RankContext& rank, const Batch& rows,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    return self.heads_of(rank, rows, inputs[0], inputs[1], store).tensors();
  };
  ReplayableUnit scope(saved, unit::qkv_linear, {normed.x.tensor(), encoded}, {*this, again});
  const AttentionHeads heads = heads_of(context, batch, std::move(normed), encoded, saved);
  scope.made(heads.tensors());
  return heads;
}

Tensor CrossAttentionSegment::attend_kept(RankContext& context, const Batch& batch,
                                          LinearInput normed, const TensorSet& in,
                                          SavedStore& saved) const {
  const AttentionSpec& spec = core_.spec();
  CrossCache& cache = *context.cross_cache;
  const Tensor q = parts_.query.forward(context, std::move(normed), saved, saved.tag());
  if (in.has(kEncoded)) {
    const auto [k, v] = split(key_value(context, batch, in.get(kEncoded), saved));
    cache.put(context.ops, spec.layer, k, v);
  }
  const CrossCache::View kept = cache.view(spec.layer);
  return core_
      .attend_kept(context, batch, q.view({q.dim(0), spec.heads, spec.head_dim}), kept.k, kept.v)
      .view({q.dim(0), spec.heads * spec.value_dim});
}

TensorSet CrossAttentionSegment::forward(RankContext& context, const Batch& batch,
                                         const TensorSet& in, SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H], as normed
  LinearInput normed =
      begin_branch(context, unit::attn_norm, parts_.input_norm, parts_.query, x, saved);
  const auto attend = [&]() -> Operand {  // [T, N · Dv]
    if (context.cross_cache != nullptr)
      return attend_kept(context, batch, std::move(normed), in, saved);
    const Tensor encoded = in.get(kEncoded);  // [stream tokens of the encoder's rows, H]
    // All blocks whose gradients of weights read it keep it: none of them may offload it.
    if (parts_.key_value.has_weight_half()) saved.keep_here(this, kEncoded, encoded);
    const AttentionHeads heads = project(context, batch, std::move(normed), encoded, saved);
    return core_.forward(context, batch, heads, saved);
  };
  const Operand attended = attend();
  const UnitScope scope(saved, unit::attn_proj);
  const std::optional<Norm> no_norm;
  TensorSet out(kHidden, end_branch(context, batch, {parts_.projection, no_norm, parts_.residual},
                                    attended, x, saved, saved.output_tag()));
  if (!last_ && in.has(kEncoded)) out.set(kEncoded, in.get(kEncoded));
  return out;
}

TensorSet CrossAttentionSegment::backward_input(RankContext& context, const Batch& batch,
                                                const TensorSet& d_out, SavedStore& saved) {
  return backward_through(context, batch, d_out, saved, false);
}

TensorSet CrossAttentionSegment::backward(RankContext& context, const Batch& batch,
                                          const TensorSet& d_out, SavedStore& saved) {
  TensorSet d_in = backward_through(context, batch, d_out, saved, true);
  query_weights(context, batch, saved);
  return d_in;
}

void CrossAttentionSegment::query_weights(RankContext& context, const Batch& batch,
                                          SavedStore& saved) {
  parts_.query.backward_weight(context, saved);
  const EncoderTokens tokens(context, batch);
  parts_.key_value.backward_weight(context, saved);
}

TensorSet CrossAttentionSegment::backward_through(RankContext& context, const Batch& batch,
                                                  const TensorSet& d_out, SavedStore& saved,
                                                  bool both) {
  const AttentionSpec& spec = core_.spec();
  const int64_t tokens = batch.tokens();
  if (parts_.key_value.has_weight_half()) saved.take(this, kEncoded);
  const Tensor d_stream = d_out.get(kHidden);  // [stream tokens, H], as d_branch
  const Tensor d_branch =
      parts_.residual.backward(context, batch, d_stream, context.settings.precision.activation);
  // d_attended [T, N, Dv] = d_branch · W_proj
  const Tensor d_attended = parts_.projection.backward_input(context, d_branch, saved)
                                .view({tokens, spec.heads, spec.value_dim});
  const AttendedGradient d_heads = core_.begin_backward(context, d_attended, saved);
  if (both) parts_.projection.backward_weight(context, saved);
  // d.q [T, N, D], d.k [T', K, D], d.v [T', K, Dv]
  const AttentionHeads d = core_.backward(context, batch, d_heads, saved);
  // To the activation format.
  const Tensor d_query = context.activation({tokens, spec.heads * spec.head_dim});
  copy(context.ops, {d.q, d_query.view(d.q.shape())});

  // d_normed [stream tokens, H] = d_query · W_q
  const Tensor d_normed = parts_.query.backward_input(context, d_query, saved);
  TensorSet d_in(kHidden,
                 begin_branch_backward(context, parts_.input_norm, d_normed, d_stream, saved));
  key_value_gradient(context, batch, d, d_out, saved, d_in);
  return d_in;
}

void CrossAttentionSegment::key_value_gradient(RankContext& context, const Batch& batch,
                                               const AttentionHeads& d, const TensorSet& d_out,
                                               SavedStore& saved, TensorSet& d_in) const {
  const bool input = parts_.input_gradient;
  if (!input && !parts_.key_value.has_weight_half()) return;
  const AttentionSpec& spec = core_.spec();
  // To the activation format.
  const Tensor d_key_value = context.activation(
      {encoder_rows(batch).keys, spec.kv_heads * (spec.head_dim + spec.value_dim)});
  const auto [d_key, d_value] = split(d_key_value);
  copy(context.ops, {d.k, d_key});
  copy(context.ops, {d.v, d_value});
  const EncoderTokens of_rows(context, batch);
  if (!input) return parts_.key_value.keep_output_gradient(context, d_key_value, saved);
  // d_encoded [stream tokens of the encoder's rows, H] = d_key_value · W_kv, plus that of the
  // blocks behind
  Tensor d_encoded = parts_.key_value.backward_input(context, d_key_value, saved);
  if (d_out.has(kEncoded)) {
    const Tensor sum = context.activation(d_encoded.shape(), MemoryTag::activations);
    add(context.ops, {d_out.get(kEncoded), d_encoded, sum});
    d_encoded = sum;
  }
  d_in.set(kEncoded, d_encoded);
}

void CrossAttentionSegment::backward_weight(RankContext& context, const Batch& batch,
                                            SavedStore& saved) {
  parts_.projection.backward_weight(context, saved);
  query_weights(context, batch, saved);
}

std::vector<const Parameter*> CrossAttentionSegment::parameters() const {
  std::vector<const Parameter*> list;
  if (parts_.input_norm) parts_.input_norm->append_parameters(list);
  parts_.query.append_parameters(list);
  parts_.key_value.append_parameters(list);
  parts_.projection.append_parameters(list);
  return list;
}

}  // namespace viaduct
