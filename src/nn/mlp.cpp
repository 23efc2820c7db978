#include "nn/mlp.h"

#include <utility>

#include "nn/branch_begin.h"
#include "nn/branch_end.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// [T, F] as [T, 1, F].
Tensor one_head(const Tensor& x) {
  return x.view({x.dim(0), 1, x.dim(1)});
}

}  // namespace

LinearInput MlpSegment::begin(RankContext& context, const Tensor& stream, SavedStore& saved) const {
  return begin_branch(context, unit::mlp_norm, parts_.input_norm, parts_.up, stream, saved);
}

Tensor MlpSegment::add_branch(RankContext& context, const Batch& batch, LinearInput normed,
                              const Tensor& stream, SavedStore& saved, MemoryTag tag) const {
  ProducedForms of_activated = allocate_activated_forms(context, batch);
  const Tensor activated =  // [T, F]
      raise_unit(context, batch, std::move(normed), saved, of_activated);
  const UnitScope scope(saved, unit::mlp);
  return end_branch(context, batch, {parts_.down, parts_.output_norm, parts_.residual},
                    {activated, std::move(of_activated)}, stream, saved, tag);
}

TensorSet MlpSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                              SavedStore& saved) {
  const Tensor x = in.get(kHidden);  // [stream tokens, H], as normed
  return TensorSet(
      kHidden, add_branch(context, batch, begin(context, x, saved), x, saved, saved.output_tag()));
}

ProducedForms MlpSegment::allocate_activated_forms(const RankContext& context,
                                                   const Batch& batch) const {
  const bool in_product = activates_in_product(context);
  const bool in_op = !in_product && !gates_apart(context) && !parts_.trained;
  if (!in_op && !(in_product && parts_.up.multiplies_all_rows(context))) return {};
  return parts_.down.allocate_input_forms(context, batch.tokens(), in_product);
}

Tensor MlpSegment::raise(RankContext& context, const Batch& batch, LinearInput normed,
                         SavedStore& saved, const ProducedForms& forms) const {
  if (!activates_in_product(context)) {
    return activate(context, parts_.up.forward(context, std::move(normed), saved, saved.tag()),
                    saved, forms);
  }
  GemmEpilogue with = epilogue();
  with.forms = forms;
  with.activated = context.activation(
      {batch.tokens(), parts_.up.outputs() / (parts_.gated ? 2 : 1)}, saved.tag());
  // raised [T, 2F if gated, else F] = normed · W_upᵀ, and with.activated [T, F] in its epilogue
  const Tensor raised = parts_.up.forward(context, std::move(normed), saved, saved.tag(), with);
  saved.keep(this, "raised", raised);
  return with.activated;
}

Tensor MlpSegment::raise_unit(RankContext& context, const Batch& batch, LinearInput normed,
                              SavedStore& saved, const ProducedForms& forms) const {
  const auto again = [](const MlpSegment& self, RankContext& rank, const Batch& rows,
                        SavedStore& store, const std::vector<Tensor>& inputs) {
    return std::vector{self.raise(rank, rows, inputs[0], store)};
  };
  ReplayableUnit scope(saved, unit::mlp, {normed.x.tensor()}, {*this, again});
  const Tensor activated = raise(context, batch, std::move(normed), saved, forms);
  scope.made({activated});
  return activated;
}

Tensor MlpSegment::lower(RankContext& context, const Tensor& d_branch, SavedStore& saved) const {
  if (!activates_in_product(context) || !parts_.down.gradient_takes_epilogue(context)) {
    return deactivate(context, parts_.down.backward_input(context, d_branch, saved), saved);
  }
  GemmEpilogue with = epilogue();
  // raised [T, 2F if gated, else F]: the epilogue overwrites it by its gradient
  with.raised = saved.take(this, "raised");
  return parts_.down.backward_input(context, d_branch, saved, with);
}

GemmEpilogue MlpSegment::epilogue() const {
  return {.activation = parts_.activation, .gated = parts_.gated};
}

Tensor MlpSegment::activate(RankContext& context, const Tensor& raised, SavedStore& saved,
                            const ProducedForms& forms) const {
  const int64_t tokens = raised.dim(0), width = raised.dim(1) / (parts_.gated ? 2 : 1);
  const Tensor activated = context.activation({tokens, width}, saved.tag());  // [T, F]
  saved.keep(this, "raised", raised);
  if (parts_.trained) {
    parts_.trained->forward(context, raised, activated);
    return activated;
  }
  if (!gates_apart(context)) {
    activation_forward(context.ops,
                       {parts_.activation, parts_.gated, raised, activated, {}, forms});
    return activated;
  }
  const Tensor gate = context.activation({tokens, width}, saved.tag());  // [T, F]
  activation_forward(context.ops, {parts_.activation, false, raised.slice(1, 0, width), gate});
  multiply(context.ops, {one_head(gate), raised.slice(1, width, width), one_head(activated)});
  saved.keep(this, "gate", gate);
  return activated;
}

Tensor MlpSegment::deactivate(RankContext& context, const Tensor& d_activated,
                              SavedStore& saved) const {
  const Tensor raised = saved.take(this, "raised");  // [T, 2F if gated, else F]
  if (parts_.trained) {
    parts_.trained->backward(context, d_activated, raised);
    return raised;
  }
  if (!gates_apart(context)) {
    activation_backward(context.ops,
                        {parts_.activation, parts_.gated, d_activated, raised, raised});
    return raised;
  }
  const int64_t width = d_activated.dim(1);
  const Tensor gate = saved.take(this, "gate");  // [T, F]
  const Tensor into_gate = raised.slice(1, 0, width), up = raised.slice(1, width, width);
  // d_gate [T, F] = d_activated · up; then the halves of raised = their gradients
  const Tensor d_gate = context.activation(d_activated.shape(), MemoryTag::activations);
  multiply(context.ops, {one_head(d_activated), up, one_head(d_gate)});
  multiply(context.ops, {one_head(d_activated), gate, one_head(up)});
  activation_backward(context.ops, {parts_.activation, false, d_gate, into_gate, into_gate});
  return raised;
}

Tensor MlpSegment::branch_gradient(RankContext& context, const Batch& batch, const Tensor& d_stream,
                                   SavedStore& saved) const {
  Tensor d_branch =  // [stream tokens, H]
      parts_.residual.backward(context, batch, d_stream, context.settings.precision.activation);
  if (parts_.output_norm) {
    const Tensor d_down = context.activation(d_branch.shape());
    parts_.output_norm->backward(context, d_branch, Tensor(), d_down, saved);
    d_branch = d_down;
  }
  const Tensor d_raised = lower(context, d_branch, saved);  // [T, 2F if gated, else F]
  // d_normed [stream tokens, H] = d_raised · W_up
  return parts_.up.backward_input(context, d_raised, saved);
}

Tensor MlpSegment::begin_gradient(RankContext& context, const Tensor& d_normed,
                                  const Tensor& d_stream, SavedStore& saved) const {
  return begin_branch_backward(context, parts_.input_norm, d_normed, d_stream, saved);
}

TensorSet MlpSegment::backward_input(RankContext& context, const Batch& batch,
                                     const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  const Tensor d_normed = branch_gradient(context, batch, d_stream, saved);
  return TensorSet(kHidden, begin_gradient(context, d_normed, d_stream, saved));
}

void MlpSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  parts_.down.backward_weight(context, saved);
  parts_.up.backward_weight(context, saved);
}

std::vector<const Parameter*> MlpSegment::parameters() const {
  std::vector<const Parameter*> list;
  if (parts_.input_norm) parts_.input_norm->append_parameters(list);
  parts_.up.append_parameters(list);
  if (parts_.trained) parts_.trained->append_parameters(list);
  parts_.down.append_parameters(list);
  if (parts_.output_norm) parts_.output_norm->append_parameters(list);
  return list;
}

}  // namespace viaduct
