// Granite 3 with mixtures of experts (2024): Granite's factors, and in every layer experts with a
// softmax over the chosen ones. Its files have all experts of a layer in two tensors.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {

ModelConfig read_granitemoe(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  read_granite_factors(config, model);
  // In files of transformers 4; version 5 rotates whatever it says.
  expect_only(config, "position_embedding_type", config.text("position_embedding_type", "rope"),
              "rope");
  read_local_experts(config, {.experts = 8, .topk = 2}, model);
  refuse_weight_of_one(config, "num_experts_per_tok", model);
  return model;
}

nlohmann::ordered_json write_granitemoe(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.qkv_bias == model.projection_bias, "add_qkv_bias",
                 "the value of add_attention_output_bias", model.qkv_bias);
  expect_experts_everywhere(model, choices);
  expect_local_experts(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  write_granite_factors(model, json);
  write_local_experts(model, json);
  return json;
}

TensorNames granitemoe_names() {
  TensorNames names = llama_names();
  names.gate = names.up = names.down = "";
  names.router = "model.layers.{}.block_sparse_moe.router.layer";
  // In no file: what adapters and messages call a single expert.
  names.expert_gate = "model.layers.{}.block_sparse_moe.experts.{}.gate_proj";
  names.expert_up = "model.layers.{}.block_sparse_moe.experts.{}.up_proj";
  names.expert_down = "model.layers.{}.block_sparse_moe.experts.{}.down_proj";
  names.experts_gate_up = "model.layers.{}.block_sparse_moe.input_linear";
  names.experts_down = "model.layers.{}.block_sparse_moe.output_linear";
  names.peft_router = "model.layers.{}.block_sparse_moe.router.weight";  // no linear layer in it
  return names;
}

void resolve_granitemoe(ModelFields& fields) {
  resolve_granite(fields);
  fields.moe.num_moe_experts.resolve(8);
}

ModelFamily granitemoe() {
  return {"granitemoe",     "GraniteMoeForCausalLM", read_granitemoe,
          write_granitemoe, granitemoe_names(),      resolve_granitemoe};
}

}  // namespace viaduct::families
