#include "nn/residual.h"

#include "base/hash.h"
#include "ops/elementwise.h"

namespace viaduct {

ResidualDropout::ResidualDropout(double probability, std::string_view path)
    : probability_(probability), path_hash_(hash64(path)) {}

Tensor ResidualDropout::forward(RankContext& context, const Batch& batch, const Tensor& branch,
                                const Tensor& residual) const {
  if (!active(context)) {
    if (!residual) return branch;
    Tensor out = context.activation(branch.shape());
    add(context.ops, {residual, branch, out});
    return out;
  }
  const bool apart = residual && !context.fusions.bias_dropout;
  DropoutArgs args;
  args.x = branch;
  if (!apart) args.residual = residual;
  args.out = context.activation(branch.shape(), apart ? MemoryTag::activations : MemoryTag::saved);
  args.probability = probability_;
  args.key = {context.seed, path_hash_};
  args.token_index = batch.stream_rows(batch.token_index);
  dropout(context.ops, args);
  if (!apart) return args.out;
  const Tensor out = context.activation(branch.shape());
  add(context.ops, {residual, args.out, out});
  return out;
}

Tensor ResidualDropout::backward(RankContext& context, const Batch& batch,
                                 const Tensor& d_out) const {
  if (!active(context)) return d_out;
  DropoutArgs args;
  args.x = d_out;
  args.out = context.activation(d_out.shape(), MemoryTag::activations);
  args.probability = probability_;
  args.key = {context.seed, path_hash_};
  args.token_index = batch.stream_rows(batch.token_index);
  dropout(context.ops, args);
  return args.out;
}

}  // namespace viaduct
