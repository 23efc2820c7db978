// Qwen 3 with mixtures of experts (Yang et al. 2025, arXiv 2505.09388), in all layers or in some.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_qwen3_moe(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.windows = read_listed_windows(config, model.layers);
  read_qwen_experts(config, {.experts = 128, .topk = 8, .feed_forward = 768}, model);
  return model;
}

nlohmann::ordered_json write_qwen3_moe(const ModelConfig& model) {
  FamilyChoices choices("qwen3_moe");
  choices.expect(model.qk_norm, "qk_layernorm", "true", "false");
  choices.expect(model.qkv_bias == model.projection_bias, "add_qkv_bias",
                 "the value of add_attention_output_bias", model.qkv_bias);
  choices.expect(model.moe.any(), "num_moe_experts", "experts", "null");
  expect_no_shared_expert(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  write_qwen_windows(model, json);
  write_qwen_experts(model, json);
  return json;
}

void resolve_qwen3_moe(ModelFields& fields) {
  fields.qk_layernorm.resolve(true);
  fields.layernorm_epsilon.resolve(1e-6);
  fields.moe.num_moe_experts.resolve(128);
  fields.moe.moe_router_topk.resolve(8);
}

}  // namespace

ModelFamily qwen3_moe() {
  return {"qwen3_moe",     "Qwen3MoeForCausalLM", read_qwen3_moe,
          write_qwen3_moe, sparse_llama_names(),  resolve_qwen3_moe};
}

}  // namespace viaduct::families
