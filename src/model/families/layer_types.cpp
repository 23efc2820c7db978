// Which layers have a sliding window, and which no rotary positions, as config.json lists them.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "model/families/families.h"

namespace viaduct::families {
namespace {

constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

}  // namespace

std::vector<bool> read_layer_types(HfConfig& config, int64_t layers, const std::string& kind) {
  const auto types = config.texts("layer_types");
  VIADUCT_CHECK(ConfigError, types.empty() || std::ssize(types) == layers,
                "{}: layer_types has {} for {}", config.where(),
                counted(std::ssize(types), "entry", "entries"), counted(layers, "layer"));
  std::vector<bool> listed;
  for (const std::string& type : types) {
    VIADUCT_CHECK(ConfigError, type == kind || type == kFull,
                  "{}: layer_types: {} is not supported (supported: {}, {})", config.where(), type,
                  kFull, kind);
    listed.push_back(type == kind);
  }
  return listed;
}

std::vector<int64_t> windows_by_layer(HfConfig& config, int64_t layers, int64_t window,
                                      bool (*slides)(int64_t, int64_t), int64_t from) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  const std::vector<bool> listed = read_layer_types(config, layers, kSliding);
  for (int64_t i = 0; i < layers; ++i) {
    const bool sliding = listed.empty() ? slides(i, from) : listed[static_cast<size_t>(i)];
    VIADUCT_CHECK(ConfigError, !sliding || window > 0,
                  "{}: layer {} slides, but sliding_window is {}", config.where(), i, window);
    if (sliding) windows[static_cast<size_t>(i)] = window;
  }
  return windows;
}

int64_t read_switched_window(HfConfig& config, int64_t unsaid) {
  const bool on = config.boolean("use_sliding_window", false);
  config.ignore({"sliding_window"});
  if (on) return config.integer_or_none("sliding_window", unsaid);
  const auto types = config.texts("layer_types");
  const auto slides = std::ranges::find(types, kSliding);
  VIADUCT_CHECK(ConfigError, slides == types.end(),
                "{}: layer {} slides (layer_types), but use_sliding_window is false",
                config.where(), slides - types.begin());
  return 0;
}

void write_layer_types(const ModelConfig& model, nlohmann::ordered_json& json) {
  auto types = nlohmann::ordered_json::array();
  for (const int64_t window : model.windows) {
    if (window > 0) json["sliding_window"] = window;
    types.push_back(window > 0 ? kSliding : kFull);
  }
  json["layer_types"] = types;
}

void write_common_window(const ModelConfig& model, nlohmann::ordered_json& json) {
  json["sliding_window"] = nullptr;
  if (!model.windows.empty() && model.windows.front() > 0)
    json["sliding_window"] = model.windows.front();
}

std::vector<int64_t> read_layers_without_rotary(HfConfig& config, int64_t layers) {
  std::vector<int64_t> rotates = config.integers("no_rope_layers");
  const int64_t every = read_interval(config, "no_rope_layer_interval", 4);
  if (rotates.empty()) {
    for (int64_t i = 0; i < layers; ++i) rotates.push_back((i + 1) % every != 0);
  }
  VIADUCT_CHECK(ConfigError, static_cast<int64_t>(rotates.size()) >= layers,
                "{}: no_rope_layers has {} for {}", config.where(),
                counted(static_cast<int64_t>(rotates.size()), "entry", "entries"),
                counted(layers, "layer"));
  rotates.resize(static_cast<size_t>(layers));
  for (int64_t& one : rotates) one = one == 0;
  if (std::ranges::count(rotates, 0) == layers) rotates.clear();
  return rotates;
}

void write_layers_without_rotary(const ModelConfig& model, nlohmann::ordered_json& json) {
  auto rotates = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < model.layers; ++i) rotates.push_back(model.rotates(i) ? 1 : 0);
  json["no_rope_layers"] = rotates;
}

int64_t read_interval(HfConfig& config, std::string_view field, int64_t unsaid) {
  const int64_t layers = config.integer(field, unsaid);
  VIADUCT_CHECK(ConfigError, layers >= 1, "{}: {} is {}, expected at least 1", config.where(),
                field, layers);
  return layers;
}

}  // namespace viaduct::families
