#include "nn/attention.h"

#include <utility>

#include "nn/branch_begin.h"
#include "nn/branch_end.h"
#include "ops/elementwise.h"

namespace viaduct {

AttentionSegment::AttentionSegment(AttentionSpec spec, AttentionParts parts, std::string_view path)
    : core_(spec, path, parts.sinks, parts.projection.weight(), parts.relative),
      parts_(std::move(parts)) {}

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
          qkv.slice(1, parts_.values_from_keys ? q : q + kv, kv)
              .view({tokens, spec.kv_heads, spec.head_dim})};
}

int64_t AttentionSegment::qkv_features() const {
  const AttentionSpec& spec = core_.spec();
  return (spec.heads + (parts_.values_from_keys ? 1 : 2) * spec.kv_heads) * spec.head_dim;
}

void AttentionSegment::norm_heads(RankContext& context, AttentionHeads& heads,
                                  SavedStore& saved) const {
  if (parts_.v_norm) heads.v = parts_.v_norm->forward(context, heads.v, saved);
  if (parts_.q_norm) heads.q = parts_.q_norm->forward(context, heads.q, saved);
  if (parts_.k_norm) heads.k = parts_.k_norm->forward(context, heads.k, saved);
  if (parts_.q_wide_norm)
    heads.q = as_heads(parts_.q_wide_norm->forward(context, as_rows(heads.q), saved));
  if (parts_.k_wide_norm)
    heads.k = as_heads(parts_.k_wide_norm->forward(context, as_rows(heads.k), saved));
  if (parts_.q_head_norm) heads.q = parts_.q_head_norm->forward(context, heads.q, saved);
  if (parts_.k_head_norm) heads.k = parts_.k_head_norm->forward(context, heads.k, saved);
}

void AttentionSegment::rotate(RankContext& context, const Batch& batch, AttentionHeads& heads,
                              MemoryTag tag, bool inverse) const {
  heads.q = parts_.rotary.of_queries().apply(context.ops, batch.positions, heads.q, tag, inverse);
  heads.k = parts_.rotary.apply(context.ops, batch.positions, heads.k, tag, inverse);
}

AttentionHeads AttentionSegment::heads_of(RankContext& context, const Batch& batch,
                                          LinearInput normed, SavedStore& saved) const {
  const MemoryTag tag = saved.tag();
  AttentionHeads heads = split(parts_.qkv.forward(context, std::move(normed), saved, tag));
  if (!parts_.norms_after_rotary) norm_heads(context, heads, saved);
  rotate(context, batch, heads, tag);
  if (parts_.norms_after_rotary) norm_heads(context, heads, saved);
  if (parts_.linear_bias != nullptr)
    heads = add_linear_bias(context, *parts_.linear_bias, batch.positions, heads, tag);
  return core_.prepare(context, heads, saved);
}

AttentionHeads AttentionSegment::project(RankContext& context, const Batch& batch,
                                         LinearInput normed, SavedStore& saved) const {
  const auto again = [](const AttentionSegment& self, RankContext& rank, const Batch& rows,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    return self.heads_of(rank, rows, inputs[0], store).tensors();
  };
  ReplayableUnit scope(saved, unit::qkv_linear, {normed.x.tensor()}, {*this, again});
  const AttentionHeads heads = heads_of(context, batch, std::move(normed), saved);
  scope.made(heads.tensors());
  return heads;
}

LinearInput AttentionSegment::begin(RankContext& context, const Tensor& stream,
                                    SavedStore& saved) const {
  return begin_branch(context, unit::attn_norm, parts_.input_norm, parts_.qkv, stream, saved);
}

Tensor AttentionSegment::add_branch(RankContext& context, const Batch& batch, LinearInput normed,
                                    const Tensor& stream, SavedStore& saved, MemoryTag tag) const {
  const AttentionHeads heads = project(context, batch, std::move(normed), saved);
  const Operand attended = core_.forward(context, batch, heads, saved);  // [T, N · D]
  const UnitScope scope(saved, unit::attn_proj);
  return end_branch(context, batch, {parts_.projection, parts_.output_norm, parts_.residual},
                    attended, stream, saved, tag);
}

TensorSet AttentionSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                                    SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H], as normed
  return TensorSet(
      kHidden, add_branch(context, batch, begin(context, x, saved), x, saved, saved.output_tag()));
}

TensorSet AttentionSegment::backward_input(RankContext& context, const Batch& batch,
                                           const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const Tensor d_normed = branch_gradient(context, batch, d_stream, saved, false);
  return TensorSet(kHidden, begin_gradient(context, d_normed, d_stream, saved));
}

TensorSet AttentionSegment::backward(RankContext& context, const Batch& batch,
                                     const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const Tensor d_normed = branch_gradient(context, batch, d_stream, saved, true);
  TensorSet d_in(kHidden, begin_gradient(context, d_normed, d_stream, saved));
  backward_qkv_weight(context, saved);
  return d_in;
}

Tensor AttentionSegment::branch_gradient(RankContext& context, const Batch& batch,
                                         const Tensor& d_stream, SavedStore& saved,
                                         bool both) const {
  const int64_t tokens = batch.tokens();
  // d_branch [stream tokens, H]
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
  if (!parts_.norms_after_rotary) rotate(context, batch, d, MemoryTag::activations, true);
  const Tensor d_qkv = context.activation({tokens, qkv_features()});
  const AttentionHeads out = split(d_qkv);
  const auto into = [&](const std::optional<Norm>& norm, const std::optional<WideNorm>& wide,
                        const Tensor& from, const Tensor& to) {
    copy(context.ops, {from, to});  // to the activation format
    if (norm) norm->backward(context, to, Tensor(), to, saved);
    if (wide) wide->backward(context, as_rows(to), as_rows(to), saved);
  };
  into(parts_.q_norm, parts_.q_wide_norm, d.q, out.q);
  into(parts_.k_norm, parts_.k_wide_norm, d.k, out.k);
  values_backward(context, d.v, out, saved);
  if (parts_.q_head_norm) parts_.q_head_norm->backward(context, out.q, out.q, saved);
  if (parts_.k_head_norm) parts_.k_head_norm->backward(context, out.k, out.k, saved);
  if (parts_.norms_after_rotary) {
    AttentionHeads turned{out.q, out.k, out.v};
    rotate(context, batch, turned, MemoryTag::activations, true);
    if (!parts_.rotary.in_place()) {
      copy(context.ops, {turned.q, out.q});
      copy(context.ops, {turned.k, out.k});
    }
  }

  // d_normed [stream tokens, H] = d_qkv · W_qkv
  return parts_.qkv.backward_input(context, d_qkv, saved);
}

void AttentionSegment::values_backward(RankContext& context, const Tensor& d_v,
                                       const AttentionHeads& out, SavedStore& saved) const {
  if (!parts_.values_from_keys) {
    copy(context.ops, {d_v, out.v});  // to the activation format
    if (parts_.v_norm) parts_.v_norm->backward(context, out.v, Tensor(), out.v, saved);
    return;
  }
  const Tensor d_normed = context.activation(d_v.shape(), MemoryTag::activations);
  copy(context.ops, {d_v, d_normed});
  parts_.v_norm->backward(context, d_normed, out.k, out.k, saved);
}

Tensor AttentionSegment::begin_gradient(RankContext& context, const Tensor& d_normed,
                                        const Tensor& d_stream, SavedStore& saved) const {
  return begin_branch_backward(context, parts_.input_norm, d_normed, d_stream, saved);
}

void AttentionSegment::backward_qkv_weight(RankContext& context, SavedStore& saved) const {
  parts_.qkv.backward_weight(context, saved);
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
  if (parts_.q_head_norm) parts_.q_head_norm->append_parameters(list);
  if (parts_.k_head_norm) parts_.k_head_norm->append_parameters(list);
  if (core_.sinks() != nullptr) list.push_back(core_.sinks());
  if (core_.bias_table() != nullptr) list.push_back(core_.bias_table());
  parts_.projection.append_parameters(list);
  if (parts_.output_norm) parts_.output_norm->append_parameters(list);
  return list;
}

}  // namespace viaduct
