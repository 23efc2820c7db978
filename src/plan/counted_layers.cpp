#include "plan/counted_layers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

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

/// "model.layers.{}.mlp.up_proj": a module's name in any layer; one of experts names its expert.
std::string in_any_layer(const std::string& module) {
  const size_t digit = module.find_first_of("0123456789");
  const bool number = digit != std::string::npos && digit > 0 && module[digit - 1] == '.';
  if (!number) return module;
  const size_t end = std::min(module.find('.', digit), module.size());
  return module.substr(0, digit) + "{}" + module.substr(end);
}

/// Whether all layers have the same adapters, and the same modules that train beside them.
bool adapters_alike(const AdapterSettings& adapters, int64_t layers) {
  std::map<std::string, std::pair<AdapterShape, int64_t>> seen;  // shape, layers
  for (const auto& [name, shape] : adapters.modules) {
    const auto entry = seen.try_emplace(in_any_layer(name), shape, 0).first;
    if (!(entry->second.first == shape)) return false;
    ++entry->second.second;
  }
  std::map<std::string, int64_t> trained;
  for (const std::string& name : adapters.trained) ++trained[in_any_layer(name)];
  return std::ranges::all_of(seen, [&](const auto& one) { return one.second.second == layers; }) &&
         std::ranges::all_of(trained, [&](const auto& one) {
           return one.second == layers || one.first.find("{}") == std::string::npos;
         });
}

}  // namespace

CountedLayers::CountedLayers(const RunSetup& whole) {
  const ModelConfig& model = whole.model;
  const AdapterSettings& adapters = whole.config.peft.resolved;
  if (adapters.any() && !adapters_alike(adapters, model.layers)) return;
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
  // Layers without chunks, or with rotary positions where some have none, take no less.
  const int64_t chunk = model.attention_chunk();
  if (!model.chunks.empty()) model.chunks.assign(static_cast<size_t>(layers), chunk);
  if (!model.no_rope.empty())
    model.no_rope.assign(static_cast<size_t>(layers), *std::ranges::max_element(model.no_rope));
  if (!model.moe.layers.empty()) model.moe.layers.assign(static_cast<size_t>(layers), experts_);
  setup.config.mixed_precision.first_last_layers_bf16 = false;
}

}  // namespace viaduct
