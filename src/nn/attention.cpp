#include "nn/attention.h"

#include <utility>

#include "nn/branch_begin.h"
#include "nn/branch_end.h"
#include "ops/elementwise.h"

namespace viaduct {

AttentionSegment::AttentionSegment(AttentionSpec spec, AttentionParts parts, std::string_view path)
    : core_(spec, path, parts.sinks, parts.projection.weight()), parts_(std::move(parts)) {}

Tensor AttentionSegment::as_rows(const Tensor& heads) const {
  return heads.view({heads.dim(0), heads.dim(1) * heads.dim(2)});
}

Tensor AttentionSegment::as_heads(const Tensor& rows) const {
  const int64_t head_dim = core_.spec().head_dim;
  return rows.view({rows.dim(0), rows.dim(1) / head_dim, head_dim});
}

AttentionHeads AttentionSegment::split(const Tensor& qkv) const {
  const AttentionSpec& spec = core_.spec();
  const int64_t tokens = qkv.dim(0), q = spec.heads * spec.head_dim,
                kv = spec.kv_heads * spec.head_dim;
  return {qkv.slice(1, 0, q).view({tokens, spec.heads, spec.head_dim}),
          qkv.slice(1, q, kv).view({tokens, spec.kv_heads, spec.head_dim}),
          qkv.slice(1, q + kv, kv).view({tokens, spec.kv_heads, spec.head_dim})};
}

AttentionHeads AttentionSegment::heads_of(RankContext& context, const Batch& batch,
                                          LinearInput normed, SavedStore& saved) const {
  const MemoryTag tag = saved.tag();
  AttentionHeads heads = split(parts_.qkv.forward(context, std::move(normed), saved, tag));
  if (parts_.q_norm) heads.q = parts_.q_norm->forward(context, heads.q, saved);
  if (parts_.k_norm) heads.k = parts_.k_norm->forward(context, heads.k, saved);
  if (parts_.q_wide_norm)
    heads.q = as_heads(parts_.q_wide_norm->forward(context, as_rows(heads.q), saved));
  if (parts_.k_wide_norm)
    heads.k = as_heads(parts_.k_wide_norm->forward(context, as_rows(heads.k), saved));
  heads.q = parts_.rotary.of_queries().apply(context.ops, batch.positions, heads.q, tag);
  heads.k = parts_.rotary.apply(context.ops, batch.positions, heads.k, tag);
  if (parts_.linear_bias != nullptr)
    heads = add_linear_bias(context, *parts_.linear_bias, batch.positions, heads, tag);
  return core_.prepare(context, heads, saved);
}

AttentionHeads AttentionSegment::project(RankContext& context, const Batch& batch,
                                         LinearInput normed, SavedStore& saved) const {
  const auto again = [](const void* layer, RankContext& rank, const Batch& rows, SavedStore& store,
                        const std::vector<Tensor>& inputs) {
    const auto* self = static_cast<const AttentionSegment*>(layer);
    return self->heads_of(rank, rows, inputs[0], store).tensors();
  };
  ReplayableUnit scope(saved, unit::qkv_linear, {normed.x.tensor()}, {this, again});
  const AttentionHeads heads = heads_of(context, batch, std::move(normed), saved);
  scope.made(heads.tensors());
  return heads;
}

TensorSet AttentionSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                    SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H], as normed
  LinearInput normed =
      begin_branch(context, unit::attn_norm, parts_.input_norm, parts_.qkv, x, saved);
  const AttentionHeads heads = project(context, batch, std::move(normed), saved);
  const Operand attended = core_.forward(context, batch, heads, saved);  // [T, N · D]
  const UnitScope scope(saved, unit::attn_proj);
  return TensorSet(
      kHidden, end_branch(context, batch, {parts_.projection, parts_.output_norm, parts_.residual},
                          attended, x, saved));
}

TensorSet AttentionSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore& saved) {
  return backward_through(context, batch, d_out, saved, false);
}

TensorSet AttentionSegment::backward(RankContext& context, const Batch& batch,
                                     const TensorSet& d_out, SavedStore& saved) {
  TensorSet d_in = backward_through(context, batch, d_out, saved, true);
  parts_.qkv.backward_weight(context, saved);
  return d_in;
}

TensorSet AttentionSegment::backward_through(RankContext& context, const Batch& batch,
                                             const TensorSet& d_out, SavedStore& saved, bool both) {
  const Tensor d_stream = d_out.get(kHidden);  // [stream tokens, H], as d_branch
  const int64_t tokens = batch.tokens();
  Tensor d_branch =
      parts_.residual.backward(context, batch, d_stream, context.settings.precision.activation);
  if (parts_.output_norm) {
    const Tensor d_projection = context.activation(d_branch.shape());
    parts_.output_norm->backward(context, d_branch, Tensor(), d_projection, saved);
    d_branch = d_projection;
  }
  // d_attended [T, N, D] = d_branch · W_proj
  const Tensor d_attended = parts_.projection.backward_input(context, d_branch, saved)
                                .view({tokens, core_.spec().heads, core_.spec().head_dim});
  const AttendedGradient d_heads = core_.begin_backward(context, d_attended, saved);
  if (both) parts_.projection.backward_weight(context, saved);
  // d.q [T, N, D], d.k and d.v [T, K, D]
  AttentionHeads d = core_.backward(context, batch, d_heads, saved);
  if (parts_.linear_bias != nullptr) d = without_linear_bias(d);
  d.q = parts_.rotary.of_queries().apply(context.ops, batch.positions, d.q, MemoryTag::activations,
                                         true);
  d.k = parts_.rotary.apply(context.ops, batch.positions, d.k, MemoryTag::activations, true);
  const Tensor d_qkv = context.activation(  // [T, (N + 2K) D]
      {tokens, (core_.spec().heads + 2 * core_.spec().kv_heads) * core_.spec().head_dim});
  const AttentionHeads out = split(d_qkv);
  const auto into = [&](const std::optional<Norm>& norm, const std::optional<WideNorm>& wide,
                        const Tensor& from, const Tensor& to) {
    copy(context.ops, {from, to});  // to the activation format
    if (norm) norm->backward(context, to, Tensor(), to, saved);
    if (wide) wide->backward(context, as_rows(to), as_rows(to), saved);
  };
  into(parts_.q_norm, parts_.q_wide_norm, d.q, out.q);
  into(parts_.k_norm, parts_.k_wide_norm, d.k, out.k);
  into(std::nullopt, std::nullopt, d.v, out.v);

  // d_normed [stream tokens, H] = d_qkv · W_qkv
  const Tensor d_normed = parts_.qkv.backward_input(context, d_qkv, saved);
  return TensorSet(kHidden,
                   begin_branch_backward(context, parts_.input_norm, d_normed, d_stream, saved));
}

void AttentionSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  parts_.projection.backward_weight(context, saved);
  parts_.qkv.backward_weight(context, saved);
}

std::vector<const Parameter*> AttentionSegment::parameters() const {
  std::vector<const Parameter*> list;
  if (parts_.input_norm) parts_.input_norm->append_parameters(list);
  parts_.qkv.append_parameters(list);
  if (parts_.q_norm) parts_.q_norm->append_parameters(list);
  if (parts_.k_norm) parts_.k_norm->append_parameters(list);
  if (parts_.q_wide_norm) parts_.q_wide_norm->append_parameters(list);
  if (parts_.k_wide_norm) parts_.k_wide_norm->append_parameters(list);
  if (core_.sinks() != nullptr) list.push_back(core_.sinks());
  parts_.projection.append_parameters(list);
  if (parts_.output_norm) parts_.output_norm->append_parameters(list);
  return list;
}

}  // namespace viaduct
