#include "nn/row_norms.h"

#include <algorithm>
#include <cmath>

#include "nn/product.h"
#include "ops/elementwise.h"
#include "ops/norm.h"

namespace viaduct {
namespace {

/// Added to means of squares: far below those of any weights, and above 0.
constexpr double kSmallestSquare = 1e-30;

/// out [R] = 1 / √(mean of squares) of the rows of x [R, N], which are overwritten.
void inverse_root_means(RankContext& context, const Tensor& x, const Tensor& out) {
  const Tensor ones = context.statistic({x.dim(1)}, MemoryTag::workspace);
  fill(context.ops, {ones, 1});
  NormForwardArgs args;
  args.kind = NormKind::rms_norm;
  args.x = args.y = x;
  args.weight = ones;
  args.rstd = out;
  args.eps = kSmallestSquare;
  norm_forward(context.ops, args);
}

/// `inverse` [rows], of this rank's features, becomes that of all tensor ranks' together.
void join_ranks(RankContext& context, const Tensor& inverse) {
  Communicator& tp = context.groups.tp();
  const int64_t ranks = tp.size(), rows = inverse.dim(0);
  const Tensor all = context.statistic({ranks, rows}, MemoryTag::workspace);
  const Tensor mine = all.slice(0, tp.rank(), 1);
  copy(context.ops, {inverse.view({1, rows}), mine});
  tp.all_gather(mine, all).wait();
  const Tensor means = reciprocals(context, all.view({ranks * rows}));
  const Tensor by_row = context.statistic({rows, ranks}, MemoryTag::workspace);
  copy(context.ops, {means.view({ranks, rows}).transposed(0, 1), by_row});
  inverse_root_means(context, by_row, inverse);
}

}  // namespace

Tensor reciprocals(RankContext& context, const Tensor& x) {
  const Tensor out = context.statistic(x.shape(), MemoryTag::activations);
  const Tensor values = context.statistic(x.shape(), MemoryTag::workspace);
  copy(context.ops, {x, values});
  inverse_root_means(context, values.view({x.dim(0), 1}), out);
  return out;
}

Tensor inverse_row_norms(RankContext& context, const Tensor& weight, const LowRankSum* added,
                         bool cut) {
  const int64_t rows = weight.dim(0), in = weight.dim(1);
  const Tensor inverse = context.statistic({rows}, MemoryTag::activations);
  const int64_t step = std::clamp<int64_t>(kRowTileElements / std::max<int64_t>(1, in), 1, rows);
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const Tensor w = weight.slice(0, begin, count);
    const Tensor tile = context.statistic({count, in}, MemoryTag::workspace);
    if (added == nullptr) {
      copy(context.ops, {w, tile});
    } else {
      // tile [count, in] = B [count, r] · A [r, in]
      run_product(context.ops,
                  {GemmForm::data_gradient, added->b.slice(0, begin, count), added->a, tile});
      if (added->scale != 1) scale(context.ops, {tile, tile, added->scale});
      add(context.ops, {w, tile, tile});
    }
    inverse_root_means(context, tile, inverse.slice(0, begin, count));
  }
  const int64_t ranks = cut ? context.groups.tp().size() : 1;
  if (ranks > 1) join_ranks(context, inverse);
  scale(context.ops, {inverse, inverse, 1 / std::sqrt(static_cast<double>(in * ranks))});
  return inverse;
}

}  // namespace viaduct
