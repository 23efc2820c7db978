#include "nn/residual.h"

#include "base/hash.h"
#include "ops/elementwise.h"

namespace viaduct {

ResidualDropout::ResidualDropout(double probability, std::string_view path)
    : probability_(probability), path_hash_(hash64(path)) {}

Tensor ResidualDropout::forward(RankContext& context, const Batch& batch, const Tensor& branch,
                                const Tensor& residual, MemoryTag tag) const {
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
  if (!active(context) && d_out.dtype() == format) return d_out;
  const Tensor d_branch = context.ops.allocate(format, d_out.shape(), MemoryTag::activations);
  if (!active(context)) {
    copy(context.ops, {d_out, d_branch});
    return d_branch;
  }
  DropoutArgs args;
  args.x = d_out;
  args.out = d_branch;
  args.probability = probability_;
  args.key = {context.settings.seed, path_hash_};
  args.token_index = batch.stream_rows(batch.token_index);
  dropout(context.ops, args);
  return d_branch;
}

}  // namespace viaduct
