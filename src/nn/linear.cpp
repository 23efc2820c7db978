#include "nn/linear.h"

#include "nn/tensor_exchange.h"
#include "ops/gemm.h"

namespace viaduct {

Linear::Linear(LinearSplit split, std::shared_ptr<const Parameter> weight,
               std::shared_ptr<const Parameter> bias)
    : split_(split), weight_(std::move(weight)), bias_(std::move(bias)) {}

Tensor Linear::forward(RankContext& context, const Tensor& x, MemoryTag tag) const {
  const bool columns = split_ == LinearSplit::columns;
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::forward);
  GemmArgs args;
  args.form = GemmForm::forward;
  args.a = columns ? gather_stream(context, x) : x;
  args.b = weight.tensor();
  args.c = context.activation({args.a.dim(0), weight_->shape[0]}, tag);
  if (bias_) {
    const AcquiredWeight bias(context.weights, *bias_, WeightUse::elementwise);
    // The outputs of a row-parallel layer are summed over the ranks: one of them has the bias.
    if (columns || context.groups.tp->rank() == 0) args.bias = bias.tensor();
    gemm(context.ops, args);
  } else {
    gemm(context.ops, args);
  }
  return columns ? args.c : reduce_to_stream(context, args.c, tag);
}

Linear::Backward Linear::backward_input(RankContext& context, const Tensor& dy) const {
  const bool columns = split_ == LinearSplit::columns;
  if (bias_) {
    const auto destination = context.gradients->gradient(*bias_);
    column_sum(context.ops, {dy, destination.tensor, destination.mode});
    context.gradients->done(*bias_);
  }
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::data_gradient);
  GemmArgs args;
  args.form = GemmForm::data_gradient;
  args.a = columns ? dy : gather_stream(context, dy);
  args.b = weight.tensor();
  args.c = context.activation({args.a.dim(0), weight_->shape[1]}, MemoryTag::activations);
  gemm(context.ops, args);
  return {columns ? reduce_to_stream(context, args.c, MemoryTag::activations) : args.c, args.a};
}

void Linear::backward_weight(RankContext& context, const Tensor& x, const Tensor& dy) const {
  const auto destination = context.gradients->gradient(*weight_);
  GemmArgs args;
  args.form = GemmForm::weight_gradient;
  args.a = dy;
  args.b = split_ == LinearSplit::columns ? gather_stream(context, x) : x;
  args.c = destination.tensor;
  args.mode = destination.mode;
  gemm(context.ops, args);
  context.gradients->done(*weight_);
}

void Linear::append_parameters(std::vector<const Parameter*>& list) const {
  list.push_back(weight_.get());
  if (bias_) list.push_back(bias_.get());
}

}  // namespace viaduct
