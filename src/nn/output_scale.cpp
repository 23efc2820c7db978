#include "nn/output_scale.h"

#include "ops/elementwise.h"

namespace viaduct {

Tensor OutputScaleSegment::scaled(RankContext& context, const Tensor& x, MemoryTag tag) const {
  const AcquiredWeight number(context.weights, *number_, WeightUse::elementwise);
  // The op multiplies by rows: one of H equal elements.
  const Tensor row = context.statistic({features_}, MemoryTag::workspace);
  fill(context.ops, {row, 1});
  const Tensor column = row.view({1, features_, 1});
  multiply(context.ops, {column, number.tensor().view({1, 1}), column});
  const Tensor out = context.stream(x.shape(), tag);
  const Shape one_token{1, x.dim(0), features_};
  multiply(context.ops, {x.view(one_token), row.view({1, features_}), out.view(one_token)});
  return out;
}

TensorSet OutputScaleSegment::forward(RankContext& context, const Batch&, const TensorSet& in,
                                      SavedStore& saved) {
  return TensorSet(kHidden, scaled(context, in.get(kHidden), saved.output_tag()));
}

TensorSet OutputScaleSegment::backward_input(RankContext& context, const Batch&,
                                             const TensorSet& d_out, SavedStore&) {
  if (number_->trained) {  // it takes part in the exchange of gradients, with zeros
    (void)context.gradients->gradient(*number_);
    context.gradients->done(*number_);
  }
  return TensorSet(kHidden, scaled(context, d_out.get(kHidden), MemoryTag::activations));
}

}  // namespace viaduct
