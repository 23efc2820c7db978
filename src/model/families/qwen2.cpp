// Qwen 2 and 2.5: Llama with biases on q, k and v, and an optional sliding window in the upper
// layers.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_qwen2(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = true;
  model.windows = read_qwen_windows(config, model.layers);
  return model;
}

nlohmann::ordered_json write_qwen2(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_qwen_windows(model, json);
  return json;
}

void resolve_qwen2(ModelFields& fields) {
  fields.add_qkv_bias.resolve(true);
  fields.layernorm_epsilon.resolve(1e-6);
}

}  // namespace

std::vector<int64_t> read_qwen_windows(HfConfig& config, int64_t layers) {
  const int64_t window = read_switched_window(config, 4096);
  const int64_t from = config.integer("max_window_layers", 28);
  return windows_by_layer(
      config, layers, window, [](int64_t layer, int64_t first) { return layer >= first; },
      window > 0 ? from : layers);
}

std::vector<int64_t> read_listed_windows(HfConfig& config, int64_t layers) {
  std::vector<int64_t> windows = read_qwen_windows(config, layers);
  const bool slides = std::ranges::any_of(windows, [](int64_t window) { return window > 0; });
  VIADUCT_CHECK(ConfigError, !slides || !config.texts("layer_types").empty(),
                "{}: use_sliding_window is true, but layer_types is missing: versions of Hugging "
                "Face's code differ in which layers of this family have the window; expected "
                "layer_types",
                config.where());
  return windows;
}

void write_qwen_windows(const ModelConfig& model, nlohmann::ordered_json& json) {
  int64_t window = 0, first = model.layers;
  auto types = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < static_cast<int64_t>(model.windows.size()); ++i) {
    const int64_t w = model.windows[static_cast<size_t>(i)];
    if (w > 0 && window == 0) window = w, first = i;
    types.push_back(w > 0 ? "sliding_attention" : "full_attention");
  }
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = nullptr;
  if (window > 0) json["sliding_window"] = window;
  json["max_window_layers"] = first;
  json["layer_types"] = types;
}

ModelFamily qwen2() {
  return {"qwen2", "Qwen2ForCausalLM", read_qwen2, write_qwen2, llama_names(), resolve_qwen2};
}

}  // namespace viaduct::families
