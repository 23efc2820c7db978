// Command R7B and Command A (Cohere 2024, 2025): Command R with a sliding window in three of four
// layers, and no positions in the others.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 10000;
constexpr int64_t kWindow = 4096, kPeriod = 4;

/// 1 for the layers without a window: their heads are not rotated.
std::vector<int64_t> layers_without_window(const std::vector<int64_t>& windows) {
  std::vector<int64_t> without;
  for (const int64_t window : windows) without.push_back(window == 0);
  return without;
}

ModelConfig read_cohere2(HfConfig& config) {
  ModelConfig model = read_cohere(config, kBase);
  check_heads_fill(config, model);
  const int64_t window = config.integer_or_none("sliding_window", kWindow);
  int64_t every = kPeriod;
  if (config.has("layer_types")) {
    config.ignore({"sliding_window_pattern", "_sliding_window_pattern"});
  } else {
    every = read_interval(config, "sliding_window_pattern", kPeriod);
  }
  model.windows = windows_by_layer(
      config, model.layers, window,
      [](int64_t layer, int64_t period) { return (layer + 1) % period != 0; }, every);
  model.no_rope = layers_without_window(model.windows);
  // In the files of its publisher, read by no code: names of what the family always has.
  for (const char* field : {"use_gated_activation", "use_parallel_block"})
    expect_only(config, field, config.boolean(field, true), true);
  constexpr const char *kOrder = "order_of_interleaved_layers", *kWindowsFirst = "local_attn_first";
  expect_only(config, kOrder, config.text(kOrder, kWindowsFirst), kWindowsFirst);
  config.ignore({"layer_switch", "position_embedding_type", "use_embedding_sharing",
                 "use_parallel_embedding"});
  return model;
}

nlohmann::ordered_json write_cohere2(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_cohere(model);
  json["sliding_window"] = nullptr;
  write_layer_types(model, json);
  return json;
}

void resolve_cohere2(ModelFields& fields) {
  resolve_cohere(fields);
  fields.window_size.resolve(kWindow);
  if (fields.num_layers.is_auto()) return;
  const auto layers = static_cast<size_t>(fields.num_layers.value());
  std::vector<int64_t> windows(layers);
  for (size_t i = 0; i < layers; ++i) windows[i] = (i + 1) % kPeriod != 0;
  fields.window_layers.resolve(windows);
  if (!fields.window_size.value()) {
    windows.assign(layers, 0);
  } else if (!fields.window_layers.value().empty()) {
    windows = fields.window_layers.value();
  } else {
    windows.assign(layers, 1);
  }
  fields.no_rope_freq.resolve(layers_without_window(windows));
}

}  // namespace

ModelFamily cohere2() {
  return {"cohere2",     "Cohere2ForCausalLM", read_cohere2,           write_cohere2,
          llama_names(), resolve_cohere2,      RotaryPairs::neighbours};
}

}  // namespace viaduct::families
