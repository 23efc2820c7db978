// Solar Open (Upstage 2026): Llama's attention with DeepSeek-V3's experts in every layer.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kSolarBase = 1e6;
constexpr int64_t kSolarHeadDim = 128;
constexpr DeepSeekDefaults kSolarExperts{.experts = 128,
                                         .topk = 8,
                                         .feed_forward = 1280,
                                         .shared_experts = 1,
                                         .dense_layers = 0,
                                         .scaling = 1};
constexpr DeepSeekChoice kSolarChoice{.groups = 1, .group_topk = 1};

ModelConfig read_solar_open(HfConfig& config) {
  // Hugging Face's class has no intermediate_size, as no layer is dense.
  ModelConfig model = read_llama_like(config, kSolarHeadDim, -1, {.base = kSolarBase, .part = 1},
                                      kSolarExperts.feed_forward);
  VIADUCT_CHECK(ConfigError, model.rotary.width == model.head_dim,
                "{}: partial_rotary_factor is not supported in this family (supported: 1)",
                config.where());
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("attention_bias", false);
  expect_only(config, "first_k_dense_replace", config.integer("first_k_dense_replace", 0), 0);
  read_deepseek_experts(config, kSolarExperts, model);
  read_deepseek_choice(config, kSolarChoice, model.moe);
  return model;
}

nlohmann::ordered_json write_solar_open(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(!model.projection_bias, "add_attention_output_bias", "false", "true");
  choices.expect(model.rotary.width == model.head_dim, "rotary_percent", "1", model.rotary.width);
  expect_experts_everywhere(model, choices);
  expect_deepseek_experts(model, choices);
  expect_deepseek_choice(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  write_deepseek_experts(model, json);
  write_deepseek_choice(model, json);
  return json;
}

void resolve_solar_open(ModelFields& fields) {
  fields.rotary_base.resolve(kSolarBase);
  resolve_deepseek_experts(kSolarExperts, fields.moe);
  resolve_deepseek_choice(kSolarChoice, fields.moe);
}

}  // namespace

ModelFamily solar_open() {
  ModelFamily family{"solar_open",     "SolarOpenForCausalLM",  read_solar_open,
                     write_solar_open, deepseek_expert_names(), resolve_solar_open};
  family.since_version5 = true;
  return family;
}

}  // namespace viaduct::families
