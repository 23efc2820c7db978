// GLM 4.5 to 4.7 (Zeng et al. 2025, arXiv 2508.06471): GLM's attention, whose rotary pairs are
// halves here, with DeepSeek-V3's experts; the larger models have norms on the heads of query and
// key.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kGlmRotatedPart = 0.5;
constexpr DeepSeekDefaults kGlmExperts{.experts = 128,
                                       .topk = 8,
                                       .feed_forward = 1408,
                                       .shared_experts = 1,
                                       .dense_layers = 1,
                                       .scaling = 1};
constexpr DeepSeekChoice kGlmChoice{.groups = 1, .group_topk = 1};

ModelConfig read_glm4_moe(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, -1, {.part = kGlmRotatedPart});
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("attention_bias", false);
  model.qk_norm = config.boolean("use_qk_norm", false);
  read_deepseek_experts(config, kGlmExperts, model);
  read_deepseek_choice(config, kGlmChoice, model.moe);
  read_multi_token_layers(config, model);
  return model;
}

nlohmann::ordered_json write_glm4_moe(const ModelConfig& model) {
  FamilyChoices choices("glm4_moe");
  expect_deepseek_experts(model, choices);
  expect_deepseek_choice(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  json["use_qk_norm"] = model.qk_norm;
  write_rotated_part(model, json);
  write_deepseek_experts(model, json);
  write_deepseek_choice(model, json);
  // transformers 5 has one where the field is missing.
  json["num_nextn_predict_layers"] = model.mtp_layers;
  return json;
}

void resolve_glm4_moe(ModelFields& fields) {
  fields.rotary_percent.resolve(kGlmRotatedPart);
  resolve_deepseek_experts(kGlmExperts, fields.moe);
  resolve_deepseek_choice(kGlmChoice, fields.moe);
}

}  // namespace

ModelFamily glm4_moe() {
  return {"glm4_moe",     "Glm4MoeForCausalLM",    read_glm4_moe,
          write_glm4_moe, deepseek_expert_names(), resolve_glm4_moe};
}

}  // namespace viaduct::families
