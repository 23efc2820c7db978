#include "nn/residual.h"

#include "base/hash.h"
#include "ops/elementwise.h"

namespace viaduct {

ResidualDropout::ResidualDropout(double probability, std::string_view path, double factor)
    : probability_(probability), factor_(factor), path_hash_(hash64(path)) {}

Tensor ResidualDropout::scaled(RankContext& context, const Tensor& x) const {
  if (factor_ == 1) return x;
  const Tensor out = context.ops.allocate(x.dtype(), x.shape(), MemoryTag::activations);
  scale(context.ops, {x, out, factor_});
  return out;
}

Tensor ResidualDropout::forward(RankContext& context, const Batch& batch, const Tensor& unscaled,
                                const Tensor& residual, MemoryTag tag) const {
  const Tensor branch = scaled(context, unscaled);
  if (!active(context)) {
    if (!residual) return branch;
    Tensor out = context.stream(branch.shape(), tag);  // [stream tokens, H], as branch
    add(context.ops, {residual, branch, out});
    return out;
  }
  const bool apart = residual && !context.settings.fusions.bias_dropout;
  DropoutArgs args;
  args.x = branch;
  if (!apart) args.residual = residual;
  args.out = apart ? context.ops.allocate(branch.dtype(), branch.shape(), MemoryTag::activations)
                   : context.stream(branch.shape(), tag);
  args.probability = probability_;
  args.key = {context.settings.seed, path_hash_};
  args.token_index = batch.stream_rows(batch.token_index);
  dropout(context.ops, args);
  if (!apart) return args.out;
  const Tensor out = context.stream(branch.shape(), tag);
  add(context.ops, {residual, args.out, out});
  return out;
}

Tensor ResidualDropout::backward(RankContext& context, const Batch& batch, const Tensor& d_out,
                                 DType format) const {
  if (only_adds(context) && d_out.dtype() == format) return d_out;
  const Tensor d_branch = context.ops.allocate(format, d_out.shape(), MemoryTag::activations);
  if (only_adds(context)) {
    copy(context.ops, {d_out, d_branch});
    return d_branch;
  }
  if (!active(context)) {
    scale(context.ops, {d_out, d_branch, factor_});
    return d_branch;
  }
  DropoutArgs args;
  args.x = d_out;
  args.out = d_branch;
  args.probability = probability_;
  args.key = {context.settings.seed, path_hash_};
  args.token_index = batch.stream_rows(batch.token_index);
  dropout(context.ops, args);
  if (factor_ != 1) scale(context.ops, {d_branch, d_branch, factor_});
  return d_branch;
}

}  // namespace viaduct
