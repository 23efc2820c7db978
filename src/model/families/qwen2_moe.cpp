// Qwen 1.5 and Qwen 2 with mixtures of experts (Yang et al. 2024, arXiv 2407.10671): Qwen 2, whose
// layers have an expert for all tokens beside those that they choose.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_qwen2_moe(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("qkv_bias", true);
  model.windows = read_listed_windows(config, model.layers);
  read_qwen_experts(config, {.experts = 60, .topk = 4, .feed_forward = 1408}, model);
  model.moe.shared_feed_forward = config.integer("shared_expert_intermediate_size", 5632);
  model.moe.shared_gate = true;
  return model;
}

nlohmann::ordered_json write_qwen2_moe(const ModelConfig& model) {
  FamilyChoices choices("qwen2_moe");
  choices.expect(!model.qk_norm, "qk_layernorm", "false", "true");
  choices.expect(!model.projection_bias, "add_attention_output_bias", "false", "true");
  choices.expect(model.moe.any(), "num_moe_experts", "experts", "null");
  choices.expect(model.moe.shared_feed_forward > 0, "moe_shared_expert_intermediate_size",
                 "a shared expert", "null");
  choices.expect(model.moe.shared_gate, "moe_shared_expert_gate", "true", "false");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["qkv_bias"] = model.qkv_bias;
  write_qwen_windows(model, json);
  write_qwen_experts(model, json);
  json["shared_expert_intermediate_size"] = model.moe.shared_feed_forward;
  return json;
}

void resolve_qwen2_moe(ModelFields& fields) {
  fields.add_qkv_bias.resolve(true);
  fields.layernorm_epsilon.resolve(1e-6);
  fields.moe.num_moe_experts.resolve(60);
  fields.moe.moe_router_topk.resolve(4);
  fields.moe.moe_router_pre_softmax.resolve(true);
  fields.moe.moe_shared_expert_intermediate_size.resolve(5632);
  fields.moe.moe_shared_expert_gate.resolve(true);
}

}  // namespace

ModelFamily qwen2_moe() {
  return {"qwen2_moe",     "Qwen2MoeForCausalLM", read_qwen2_moe,
          write_qwen2_moe, sparse_llama_names(),  resolve_qwen2_moe};
}

}  // namespace viaduct::families
