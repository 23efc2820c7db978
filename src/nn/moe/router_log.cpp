#include "nn/moe/router_log.h"

#include <algorithm>

#include "base/error.h"
#include "nn/context.h"
#include "nn/saved.h"
#include "ops/elementwise.h"

namespace viaduct {

RouterLog::RouterLog(OpContext& context, const std::vector<int64_t>& blocks, int64_t experts,
                     bool biased) {
  const auto counts = [&] { return context.allocate(DType::i64, {experts}, MemoryTag::other); };
  for (const int64_t block : blocks) {
    layers_.push_back({.block = block,
                       .choices = counts(),
                       .kept = counts(),
                       .sums = context.allocate(DType::f64, {kSums}, MemoryTag::other),
                       .rows = context.allocate(DType::i64, {1}, MemoryTag::other),
                       .biased = biased,
                       .so_far = counts(),
                       .first_counts = {}});
  }
}

void RouterLog::begin_step(OpContext& context) {
  for (Layer& layer : layers_) {
    layer.any = layer.any_rows = layer.any_so_far = false;
    layer.first_counts.clear();
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
