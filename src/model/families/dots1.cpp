// dots.llm1 (rednote-hilab 2025, arXiv 2506.05767): Qwen 3's attention with DeepSeek-V3's experts,
// without groups.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr DeepSeekDefaults kDotsExperts{.experts = 128,
                                        .topk = 6,
                                        .feed_forward = 1408,
                                        .shared_experts = 2,
                                        .dense_layers = 0,
                                        .scaling = 1};
constexpr DeepSeekChoice kDotsChoice{.groups = 1, .group_topk = 1, .normalize = false};

/// The layers from max_window_layers on, or as layer_types lists them; no field switches windows.
std::vector<int64_t> read_dots_windows(HfConfig& config, int64_t layers) {
  const int64_t window = config.integer_or_none("sliding_window", 4096);
  const int64_t from = config.integer("max_window_layers", 62);
  config.ignore({"use_sliding_window"});
  return windows_by_layer(
      config, layers, window, [](int64_t layer, int64_t first) { return layer >= first; },
      window > 0 ? from : layers);
}

ModelConfig read_dots1(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.windows = read_dots_windows(config, model.layers);
  read_deepseek_experts(config, kDotsExperts, model);
  read_deepseek_choice(config, kDotsChoice, model.moe);
  return model;
}

nlohmann::ordered_json write_dots1(const ModelConfig& model) {
  FamilyChoices choices("dots1");
  choices.expect(model.qk_norm, "qk_layernorm", "true", "false");
  choices.expect(model.qkv_bias == model.projection_bias, "add_qkv_bias",
                 "the value of add_attention_output_bias", model.qkv_bias);
  expect_deepseek_experts(model, choices);
  expect_deepseek_choice(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  json["sliding_window"] = nullptr;
  json["max_window_layers"] = model.layers;
  write_layer_types(model, json);
  write_deepseek_experts(model, json);
  write_deepseek_choice(model, json);
  return json;
}

void resolve_dots1(ModelFields& fields) {
  fields.qk_layernorm.resolve(true);
  fields.layernorm_epsilon.resolve(1e-6);
  resolve_deepseek_experts(kDotsExperts, fields.moe);
  resolve_deepseek_choice(kDotsChoice, fields.moe);
}

}  // namespace

ModelFamily dots1() {
  return {"dots1",     "Dots1ForCausalLM",      read_dots1,
          write_dots1, deepseek_expert_names(), resolve_dots1};
}

}  // namespace viaduct::families
