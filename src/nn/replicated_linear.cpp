#include "nn/replicated_linear.h"

#include "nn/product.h"
#include "nn/weight_gradient.h"

namespace viaduct {

Tensor ReplicatedLinear::forward(RankContext& context, const Tensor& x, SavedStore& saved) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::elementwise);
  GemmArgs product;  // y [R, out] = x · Wᵀ
  product.a = x;
  product.b = weight.tensor();
  product.c = context.activation({x.dim(0), weight_->shape[0]}, saved.tag());
  run_product(context.ops, product);
  if (terms_.any()) terms_.add_to(context, terms_.reduce(context, x, saved), product.c);
  if (has_weight_half()) saved.keep(this, "x", x);
  return product.c;
}

Tensor ReplicatedLinear::backward_input(RankContext& context, const Tensor& dy,
                                        SavedStore& saved) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::elementwise);
  GemmArgs product;  // dx [R, in] = dy · W
  product.form = GemmForm::data_gradient;
  product.a = dy;
  product.b = weight.tensor();
  product.c = context.activation({dy.dim(0), weight_->shape[1]}, MemoryTag::activations);
  run_product(context.ops, product);
  if (terms_.any()) terms_.add_input_gradient(context, dy, product.c, saved);
  if (has_weight_half()) saved.keep(this, "dy", dy);
  return product.c;
}

void ReplicatedLinear::backward_weight(RankContext& context, SavedStore& saved) const {
  if (!has_weight_half()) return;
  const Tensor dy = saved.take(this, "dy"), x = saved.take(this, "x");
  if (terms_.any()) terms_.weight_gradients(context, x, dy, saved);
  if (!weight_->trained) return;
  make_weight_gradient(context, dy, x, context.gradients->product_gradient(*weight_));
  context.gradients->done(*weight_);
}

void ReplicatedLinear::append_parameters(std::vector<const Parameter*>& list) const {
  list.push_back(weight_.get());
  terms_.append_parameters(list);
}

}  // namespace viaduct
