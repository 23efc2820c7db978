#include "nn/wide_norm.h"

#include "ops/elementwise.h"

namespace viaduct {
namespace {

/// [T, ranks · W] of the rows [T, W] of all tensor ranks.
Tensor gather_features(RankContext& context, const Tensor& x, MemoryTag tag) {
  Communicator& tp = context.groups.tp();
  const int64_t ranks = tp.size(), tokens = x.dim(0), width = x.dim(1);
  const Tensor parts =
      context.ops.allocate(x.dtype(), {ranks, tokens, width}, MemoryTag::activations);
  const Tensor mine = parts.slice(0, tp.rank(), 1);
  copy(context.ops, {x, mine.view({tokens, width})});
  tp.all_gather(mine, parts).wait();
  const Tensor all = context.ops.allocate(x.dtype(), {tokens, ranks * width}, tag);
  copy(context.ops, {parts.transposed(0, 1), all.view({tokens, ranks, width})});
  return all;
}

/// This rank's features of `all`.
Tensor own_features(RankContext& context, const Tensor& all, int64_t width) {
  return all.slice(1, context.groups.tp().rank() * width, width);
}

}  // namespace

Tensor WideNorm::forward(RankContext& context, const Tensor& x, SavedStore& saved) const {
  if (context.groups.tp().size() == 1) return norm_.forward(context, x, saved);
  const Tensor all = gather_features(context, x, saved.tag());
  return own_features(context, norm_.forward(context, all, saved), x.dim(1));
}

void WideNorm::backward(RankContext& context, const Tensor& dy, const Tensor& dx,
                        SavedStore& saved) const {
  if (context.groups.tp().size() == 1) return norm_.backward(context, dy, Tensor(), dx, saved);
  const Tensor all = gather_features(context, dy, MemoryTag::activations);
  norm_.backward(context, all, Tensor(), all, saved);
  copy(context.ops, {own_features(context, all, dx.dim(1)), dx});
}

}  // namespace viaduct
