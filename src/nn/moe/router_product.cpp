#include "nn/moe/router_product.h"

#include "nn/product.h"
#include "nn/weight_gradient.h"
#include "ops/bias.h"
#include "ops/elementwise.h"

namespace viaduct {

Tensor in_dtype(RankContext& context, const Tensor& tensor, DType dtype, MemoryTag tag) {
  if (tensor.dtype() == dtype) return tensor;
  const Tensor converted = context.ops.allocate(dtype, tensor.shape(), tag);
  copy(context.ops, {tensor, converted});
  return converted;
}

DType RouterProduct::format(const RankContext& context) const {
  return format_ == RouterFormat::activations ? context.settings.precision.activation
                                              : logit_format(context);
}

DType RouterProduct::logit_format(const RankContext& context) const {
  return format_ == RouterFormat::f64 ? DType::f64 : context.settings.precision.statistic;
}

Tensor RouterProduct::forward(RankContext& context, const Tensor& tokens, SavedStore& saved) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::elementwise);
  GemmArgs product;
  product.a = in_format(context, tokens);
  product.b = in_format(context, weight.tensor());
  product.c = context.ops.allocate(logit_format(context), {tokens.dim(0), weight_->shape[0]},
                                   saved.statistic_tag());  // logits
  run_product(context.ops, product);
  if (bias_) {
    const AcquiredWeight bias(context.weights, *bias_, WeightUse::elementwise);
    const bool wide = product.c.dtype() == DType::f64;
    bias_add(context.ops,
             {product.c, wide ? in_dtype(context, bias.tensor(), DType::f64) : bias.tensor(),
              product.c});
  }
  saved.keep(this, "tokens", tokens);
  return product.c;
}

Tensor RouterProduct::backward_input(RankContext& context, const Tensor& d_logits,
                                     const Tensor& d_tokens, SavedStore& saved) const {
  const DType statistic = context.settings.precision.statistic;
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::elementwise);
  if (bias_) {
    column_sum(context.ops, {in_dtype(context, d_logits, statistic),
                             context.gradients->gradient(*bias_).tensor});
    context.gradients->done(*bias_);
  }
  const Tensor dy = in_format(context, d_logits);
  saved.keep(this, "d_logits", dy);
  GemmArgs product;  // [T, H] = d_logits · W
  product.form = GemmForm::data_gradient;
  product.a = dy;
  product.b = in_format(context, weight.tensor());
  product.c = context.ops.allocate(format(context), d_tokens.shape(), MemoryTag::activations);
  run_product(context.ops, product);
  const bool wide = product.c.dtype() == DType::f64;
  const Tensor own = wide ? in_dtype(context, product.c, statistic) : product.c;
  const Tensor sum =
      context.ops.allocate(d_tokens.dtype(), d_tokens.shape(), MemoryTag::activations);
  add(context.ops, {d_tokens, own, sum});
  return sum;
}

void RouterProduct::backward_weight(RankContext& context, SavedStore& saved) const {
  const Tensor dy = saved.take(this, "d_logits");
  const Tensor x = in_format(context, saved.take(this, "tokens"));
  GradientAccess::Destination destination = context.gradients->gradient(*weight_);
  if (dy.dtype() == DType::f64 && destination.tensor.dtype() != DType::f64) {
    const GradientAccess::Destination wide{
        context.ops.allocate(DType::f64, destination.tensor.shape(), MemoryTag::workspace),
        WriteMode::assign};
    make_weight_gradient(context, dy, x, wide);
    copy(context.ops, {wide.tensor, destination.tensor, destination.mode});
  } else {
    make_weight_gradient(context, dy, x, destination);
  }
  context.gradients->done(*weight_);
}

}  // namespace viaduct
