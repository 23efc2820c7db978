#include "plan/counted_layers.h"

#include <algorithm>

#include "precision/precision_config.h"

namespace viaduct {
namespace {

// A row of so many windows is attended in much less time than without a window, whichever kernels
// are used.
constexpr int64_t kShortWindows = 4;

int64_t entry(const std::vector<int64_t>& by_layer, int64_t layer) {
  return by_layer.empty() ? 0 : by_layer[static_cast<size_t>(layer)];
}

/// Of those that are limited; 0: there is none.
int64_t shortest_window(const std::vector<int64_t>& windows) {
  int64_t shortest = 0;
  for (const int64_t window : windows)
    if (window > 0 && (shortest == 0 || window < shortest)) shortest = window;
  return shortest;
}

int64_t most_frequent(const std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  return *std::ranges::max_element(
      values, {}, [&](int64_t value) { return std::ranges::count(values, value); });
}

}  // namespace

CountedLayers::CountedLayers(const RunSetup& whole) {
  const ModelConfig& model = whole.model;
  const PrecisionRecipe recipe = precision_recipe(whole.config.mixed_precision);
  const bool narrow = recipe.products.any();
  if (narrow && !recipe.plain_layers.empty()) return;  // names of layers may be of any block
  window_ = most_frequent(model.windows);
  const int64_t shortest = shortest_window(model.windows);
  const bool short_one =
      shortest > 0 && kShortWindows * shortest <= whole.config.model.seq_length.value();
  if (short_one) window_ = shortest;  // layers with longer ones take no less
  experts_ = model.moe.any() ? 1 : 0;
  const int64_t begin = narrow ? recipe.plain_blocks_at_start : 0;
  const int64_t end = model.layers - (narrow ? recipe.plain_blocks_at_end : 0);
  for (int64_t layer = begin; layer < end; ++layer) {
    const bool window = short_one || entry(model.windows, layer) == window_;
    if (window && entry(model.moe.layers, layer) == experts_) ++count_;
  }
}

void CountedLayers::reduce(RunSetup& setup, int64_t layers) const {
  ModelConfig& model = setup.model;
  model.layers = layers;
  model.mtp_layers = 0;
  if (!model.windows.empty()) model.windows.assign(static_cast<size_t>(layers), window_);
  // Layers without chunks, or with rotary positions, take no less.
  const int64_t chunk = model.attention_chunk();
  if (!model.chunks.empty()) model.chunks.assign(static_cast<size_t>(layers), chunk);
  if (!model.no_rope.empty()) model.no_rope.assign(static_cast<size_t>(layers), 1);
  if (!model.moe.layers.empty()) model.moe.layers.assign(static_cast<size_t>(layers), experts_);
  setup.config.mixed_precision.first_last_layers_bf16 = false;
}

}  // namespace viaduct
