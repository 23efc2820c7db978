// SmolLM 3 (2025): Llama, of which every fourth layer has no positions.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 2e6;
constexpr int64_t kPadding = 128004;

/// Where the file does not list them, layers without positions have the window.
std::vector<int64_t> read_windows(HfConfig& config, const ModelConfig& model) {
  const int64_t window = read_switched_window(config, 0);
  config.ignore({"max_window_layers"});
  std::vector<int64_t> windows = windows_by_layer(
      config, model.layers, window, [](int64_t, int64_t) { return false; }, 0);
  if (config.has("layer_types")) return windows;
  for (size_t i = 0; i < model.no_rope.size(); ++i) windows[i] = model.no_rope[i] * window;
  return windows;
}

ModelConfig read_smollm3(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, kPadding, {.base = kBase});
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  read_llama_biases(config, model);
  model.no_rope = read_layers_without_rotary(config, model.layers);
  model.windows = read_windows(config, model);
  return model;
}

nlohmann::ordered_json write_smollm3(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_llama_biases(model, json);
  write_layers_without_rotary(model, json);
  json["sliding_window"] = nullptr;
  write_layer_types(model, json);
  json["use_sliding_window"] = !json["sliding_window"].is_null();
  return json;
}

void resolve_smollm3(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(1e-6);
  fields.rotary_base.resolve(kBase);
  fields.share_embeddings_and_output_weights.resolve(true);
  if (fields.num_layers.is_auto()) return;
  std::vector<int64_t> every_fourth;
  for (int64_t i = 0; i < fields.num_layers.value(); ++i) every_fourth.push_back(i % 4 == 3);
  fields.no_rope_freq.resolve(every_fourth);
}

}  // namespace

ModelFamily smollm3() {
  return {"smollm3",     "SmolLM3ForCausalLM", read_smollm3,
          write_smollm3, llama_names(),        resolve_smollm3};
}

}  // namespace viaduct::families
