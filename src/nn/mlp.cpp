#include "nn/mlp.h"

namespace viaduct {

TensorSet MlpSegment::forward(RankContext& context, const Batch& batch, const TensorSet& in,
                              SavedStore& saved) {
  const Tensor x = in.get(kHidden);
  const Tensor normed = parts_.input_norm.forward(context, x, saved);
  UnitScope unit(saved, "mlp");
  const Tensor raised = parts_.up.forward(context, normed, saved);
  const Tensor activated =
      context.activation({raised.dim(0), raised.dim(1) / (parts_.gated ? 2 : 1)});
  activation_forward(context.ops, {parts_.activation, parts_.gated, raised, activated});
  saved.keep(this, "raised", raised);
  Tensor branch = parts_.down.forward(context, activated, saved, MemoryTag::activations);
  if (parts_.output_norm) branch = parts_.output_norm->forward(context, branch, saved);
  return TensorSet(kHidden, parts_.residual.forward(context, batch, branch, x));
}

TensorSet MlpSegment::backward_input(RankContext& context, const Batch& batch,
                                     const TensorSet& d_out, SavedStore& saved) {
  const Tensor d_stream = d_out.get(kHidden);
  Tensor d_branch = parts_.residual.backward(context, batch, d_stream);
  if (parts_.output_norm) {
    const Tensor d_down = context.activation(d_branch.shape());
    parts_.output_norm->backward(context, d_branch, Tensor(), d_down, saved);
    d_branch = d_down;
  }
  const Tensor d_activated = parts_.down.backward_input(context, d_branch, saved);
  const Tensor raised = saved.take(this, "raised");
  activation_backward(context.ops,
                      {parts_.activation, parts_.gated, d_activated, raised, raised});  // in place
  const Tensor d_normed = parts_.up.backward_input(context, raised, saved);
  const Tensor d_in = context.activation(d_stream.shape(), MemoryTag::activations);
  parts_.input_norm.backward(context, d_normed, d_stream, d_in, saved);
  return TensorSet(kHidden, d_in);
}

void MlpSegment::backward_weight(RankContext& context, const Batch&, SavedStore& saved) {
  parts_.down.backward_weight(context, saved);
  parts_.up.backward_weight(context, saved);
}

std::vector<const Parameter*> MlpSegment::parameters() const {
  std::vector<const Parameter*> list;
  parts_.input_norm.append_parameters(list);
  parts_.up.append_parameters(list);
  parts_.down.append_parameters(list);
  if (parts_.output_norm) parts_.output_norm->append_parameters(list);
  return list;
}

}  // namespace viaduct
