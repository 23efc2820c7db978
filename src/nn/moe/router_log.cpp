#include "nn/moe/router_log.h"

#include <algorithm>

#include "base/error.h"
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
                       .biased = biased,
                       .so_far = counts(),
                       .first_counts = {}});
  }
}

void RouterLog::begin_step(OpContext& context) {
  for (Layer& layer : layers_) {
    layer.any = layer.any_so_far = false;
    layer.first_counts.clear();
    fill(context, {layer.sums, 0});
  }
}

RouterLog::Layer& RouterLog::layer(int64_t block) {
  const auto found = std::ranges::find(layers_, block, &Layer::block);
  VIADUCT_CHECK(ShapeError, found != layers_.end(), "router log: no layer {} on this rank", block);
  return *found;
}

}  // namespace viaduct
