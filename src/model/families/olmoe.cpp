// OLMoE (Muennighoff et al. 2024, arXiv 2409.02060): Llama with experts in every layer and norms
// over all heads of queries and over all heads of keys.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_olmoe(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = true;
  model.qk_norm_per_head = false;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  VIADUCT_CHECK(ConfigError, !config.has("clip_qkv"),
                "{}: clip_qkv {} is not supported (supported: null)", config.where(),
                config.number("clip_qkv"));
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "num_experts", 64);
  moe.routing.topk = config.integer("num_experts_per_tok", 8);
  moe.routing.pre_softmax = !config.boolean("norm_topk_prob", false);
  moe.feed_forward = model.feed_forward;
  moe.layers.assign(static_cast<size_t>(model.layers), 1);
  read_router_training(config, moe);
  return model;
}

nlohmann::ordered_json write_olmoe(const ModelConfig& model) {
  FamilyChoices choices("olmoe");
  expect_experts_everywhere(model, choices);
  choices.expect(model.qk_norm && !model.qk_norm_per_head, "qk_layernorm_per_head",
                 "qk_layernorm=true and false", model.qk_norm_per_head);
  choices.expect(model.qkv_bias == model.projection_bias, "add_qkv_bias",
                 "the value of add_attention_output_bias", model.qkv_bias);
  expect_heads_fill(model, choices);
  expect_experts_of_full_width(model, choices);
  expect_no_shared_expert(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  json["clip_qkv"] = nullptr;
  json["num_experts"] = model.moe.experts;
  json["num_experts_per_tok"] = model.moe.routing.topk;
  json["norm_topk_prob"] = !model.moe.routing.pre_softmax;
  write_router_training(model.moe, json);
  return json;
}

void resolve_olmoe(ModelFields& fields) {
  fields.qk_layernorm.resolve(true);
  fields.qk_layernorm_per_head.resolve(false);
  fields.moe.num_moe_experts.resolve(64);
  fields.moe.moe_router_topk.resolve(8);
  fields.moe.moe_router_pre_softmax.resolve(true);
}

}  // namespace

ModelFamily olmoe() {
  return {"olmoe",     "OlmoeForCausalLM",   read_olmoe,
          write_olmoe, sparse_llama_names(), resolve_olmoe};
}

}  // namespace viaduct::families
