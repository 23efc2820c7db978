#include "nn/moe/router_log.h"

#include <algorithm>

#include "base/error.h"
#include "nn/context.h"
#include "nn/saved.h"
#include "ops/elementwise.h"

namespace viaduct {

RouterLog::RouterLog(OpContext& context, const std::vector<int64_t>& blocks, const MoeConfig& moe,
                     DType statistic)
    : topk_(moe.routing.topk) {
  const auto other = [&](DType dtype, const Shape& shape) {
    return context.allocate(dtype, shape, MemoryTag::other);
  };
  const auto counts = [&] { return other(DType::i64, {moe.experts}); };
  const bool counts_margins = moe.quantile_bins > 0 && !blocks.empty();
  if (counts_margins)
    margins_ =
        other(DType::i64, {static_cast<int64_t>(blocks.size()), moe.experts, moe.quantile_bins});
  for (const int64_t block : blocks) {
    Layer& layer = layers_.emplace_back();
    layer.block = block;
    layer.choices = counts(), layer.kept = counts();
    const auto losses = static_cast<int64_t>(moe.balance_losses.size());
    layer.sums = other(DType::f64, {std::max<int64_t>(1, losses), kSums});
    layer.rows = other(DType::i64, {1});
    layer.biased = moe.load_bias;
    layer.so_far = counts();
    if (!counts_margins) continue;
    layer.margins = margins_.select(static_cast<int64_t>(layers_.size()) - 1);
    layer.bias = other(statistic, {moe.experts});
  }
}

void RouterLog::begin_step(OpContext& context) {
  for (Layer& layer : layers_) {
    layer.any = layer.any_rows = layer.any_so_far = layer.any_margins = false;
    layer.first_counts.clear();
    layer.logits.clear();
    fill(context, {layer.sums, 0});
  }
}

RouterLog::Layer& RouterLog::layer(int64_t block) {
  const auto found = std::ranges::find(layers_, block, &Layer::block);
  VIADUCT_CHECK(ShapeError, found != layers_.end(), "router log: no layer {} on this rank", block);
  return *found;
}

bool logs(const RankContext& context, const SavedStore& saved) {
  return context.router_log != nullptr && saved.keeps();
}

void RouterLog::count_rows(int64_t block, SortByExpertArgs& order) {
  Layer& of = layer(block);
  order.all_rows = of.rows;
  order.all_rows_mode = of.any_rows ? WriteMode::accumulate : WriteMode::assign;
  of.any_rows = true;
  of.copies = order.copies;
}

}  // namespace viaduct
