#include "nn/head_norm.h"

#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"

namespace viaduct {
namespace {

/// The op's weights [D] where there are none.
Tensor ones(RankContext& context, int64_t size) {
  const DType format = accumulator_dtype(context.settings.precision.activation);
  const Tensor one = context.ops.allocate(format, {size}, MemoryTag::workspace);
  fill(context.ops, {one, 1});
  return one;
}

}  // namespace

void HeadNorm::multiply_heads(RankContext& context, const Tensor& x, const Tensor& out) const {
  const AcquiredWeight weight(context.weights, *weight_, WeightUse::elementwise);
  Tensor factor = weight.tensor();
  if (weight_offset_ != 0) {
    factor = context.ops.allocate(factor.dtype(), factor.shape(), MemoryTag::workspace);
    fill(context.ops, {factor, weight_offset_});
    add(context.ops, {factor, weight.tensor(), factor});
  }
  multiply(context.ops,
           {x.transposed(0, 1), factor.view({x.dim(1), x.dim(2)}), out.transposed(0, 1)});
}

Tensor HeadNorm::normed(RankContext& context, const Tensor& x, MemoryTag tag, const Tensor& mean,
                        const Tensor& rstd) const {
  NormForwardArgs args;
  args.kind = kind_;
  args.x = x;
  args.weight = ones(context, x.dim(2));
  args.y = context.activation(x.shape(), tag);
  args.mean = mean, args.rstd = rstd;
  args.eps = eps_;
  norm_forward(context.ops, args);
  return args.y;
}

Tensor HeadNorm::forward(RankContext& context, const Tensor& x, SavedStore& saved) const {
  const int64_t rows = x.dim(0) * x.dim(1);
  Tensor mean, rstd;
  if (saved.keeps()) {
    rstd = context.statistic({rows});
    if (kind_ == NormKind::layer_norm) mean = context.statistic({rows});
  }
  const Tensor plain = normed(context, x, MemoryTag::activations, mean, rstd);
  const Tensor y = context.activation(x.shape(), saved.tag());
  multiply_heads(context, plain, y);
  saved.keep(this, "x", x);
  if (rstd) saved.keep_statistic(this, "rstd", rstd);
  if (mean) saved.keep_statistic(this, "mean", mean);
  return y;
}

void HeadNorm::add_weight_gradient(RankContext& context, const Tensor& x, const Tensor& dy) const {
  const int64_t tokens = x.dim(0), features = x.dim(1) * x.dim(2);
  const Tensor product =  // [T, 1, N · D] = norm(x) · dy
      normed(context, x, MemoryTag::activations, {}, {}).view({tokens, 1, features});
  multiply(context.ops, {product, dy.view({tokens, features}), product});
  // dw [N · D] += the sum over the tokens
  const Tensor d_weight = context.gradients->gradient(*weight_).tensor;
  column_sum(context.ops,
             {product.view({tokens, features}), d_weight.view({features}), WriteMode::accumulate});
  context.gradients->done(*weight_);
}

void HeadNorm::backward(RankContext& context, const Tensor& dy, const Tensor& dx,
                        SavedStore& saved) const {
  NormBackwardArgs args;
  args.kind = kind_;
  args.x = saved.take(this, "x");
  args.rstd = saved.take(this, "rstd");
  if (kind_ == NormKind::layer_norm) args.mean = saved.take(this, "mean");
  if (weight_->trained) add_weight_gradient(context, args.x, dy);
  args.dy = context.activation(dy.shape(), MemoryTag::activations);
  multiply_heads(context, dy, args.dy);
  args.weight = ones(context, dy.dim(2));
  args.dx = dx;
  // The op always sums it; nothing reads these sums.
  args.d_weight = ones(context, dy.dim(2));
  norm_backward(context.ops, args);
}

}  // namespace viaduct
