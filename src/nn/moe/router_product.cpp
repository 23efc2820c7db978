#include "nn/moe/router_product.h"

#include "base/error.h"
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

RouterProduct::RouterProduct(std::shared_ptr<const Parameter> weight, RouterFormat format,
                             std::shared_ptr<const Parameter> bias, LowRankTerms terms)
    : weight_(std::move(weight)),
      bias_(std::move(bias)),
      format_(format),
      terms_(std::move(terms)) {
  VIADUCT_CHECK(ConfigError, !terms_.any() || format != RouterFormat::f64,
                "model.moe_router_dtype: fp64 with an adapter of the router ({}) is not built yet; "
                "expected fp32 or null",
                weight_->path);
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
  if (terms_.any()) terms_.add_to(context, terms_.reduce(context, tokens, saved), product.c);
  if (bias_) {
    const AcquiredWeight bias(context.weights, *bias_, WeightUse::elementwise);
    const bool wide = product.c.dtype() == DType::f64;
    bias_add(context.ops,
             {product.c, wide ? in_dtype(context, bias.tensor(), DType::f64) : bias.tensor(),
              product.c});
  }
  if (has_weight_half()) saved.keep(this, "tokens", tokens);
  return product.c;
}

Tensor RouterProduct::backward_input(RankContext& context, const Tensor& d_logits,
                                     const Tensor& d_tokens, SavedStore& saved) const {
  const DType statistic = context.settings.precision.statistic;
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::elementwise);
  if (bias_ && bias_->trained) {
    column_sum(context.ops, {in_dtype(context, d_logits, statistic),
                             context.gradients->gradient(*bias_).tensor});
    context.gradients->done(*bias_);
  }
  const Tensor dy = in_format(context, d_logits);
  if (weight_->trained) saved.keep(this, "d_logits", dy);
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
  if (terms_.any()) {
    const Tensor narrow = in_dtype(context, d_logits, context.settings.precision.activation);
    terms_.add_input_gradient(context, narrow, sum, saved);
    saved.keep(this, "d_logits of terms", narrow);
  }
  return sum;
}

void RouterProduct::backward_weight(RankContext& context, SavedStore& saved) const {
  if (!has_weight_half()) return;
  const Tensor tokens = saved.take(this, "tokens");
  if (terms_.any())
    terms_.weight_gradients(context, tokens, saved.take(this, "d_logits of terms"), saved);
  if (!weight_->trained) return;
  const Tensor dy = saved.take(this, "d_logits");
  const Tensor x = in_format(context, tokens);
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

void RouterProduct::append_parameters(std::vector<const Parameter*>& list) const {
  list.push_back(weight_.get());
  if (bias_) list.push_back(bias_.get());
  terms_.append_parameters(list);
}

}  // namespace viaduct
