// Mixtral (Jiang et al. 2024, arXiv 2401.04088): Mistral whose feed-forwards are mixtures of
// experts, with a softmax over the chosen ones.

#include <nlohmann/json.hpp>

#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.windows.assign(static_cast<size_t>(model.layers), config.integer("sliding_window", 0));
  model.moe.experts = read_experts(config, "num_local_experts", 8);
  model.moe.routing.topk = config.integer("num_experts_per_tok", 2);
  model.moe.feed_forward = model.feed_forward;
  model.moe.layers.assign(static_cast<size_t>(model.layers), 1);
  refuse_router_noise(config);
  return model;
}

nlohmann::ordered_json write(const ModelConfig& model) {
  FamilyChoices choices("mixtral");
  expect_experts_everywhere(model, choices);
  choices.expect(model.moe.feed_forward == model.feed_forward, "moe_ffn_hidden_size",
                 "ffn_hidden_size", model.moe.feed_forward);
  expect_softmax_of_chosen(model, choices);
  choices.expect(model.moe.shared_feed_forward == 0, "moe_shared_expert_intermediate_size", "null",
                 model.moe.shared_feed_forward);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["sliding_window"] = nullptr;
  if (!model.windows.empty() && model.windows.front() > 0)
    json["sliding_window"] = model.windows.front();
  json["num_local_experts"] = model.moe.experts;
  json["num_experts_per_tok"] = model.moe.routing.topk;
  return json;
}

TensorNames names() {
  TensorNames names = llama_names();
  names.gate = names.up = names.down = "";
  names.router = "model.layers.{}.block_sparse_moe.gate";
  names.expert_gate = "model.layers.{}.block_sparse_moe.experts.{}.w1";
  names.expert_up = "model.layers.{}.block_sparse_moe.experts.{}.w3";
  names.expert_down = "model.layers.{}.block_sparse_moe.experts.{}.w2";
  return names;
}

void resolve(ModelFields& fields) {
  fields.moe.num_moe_experts.resolve(8);
  fields.rotary_base.resolve(1e6);
}

}  // namespace

ModelFamily mixtral() {
  return {"mixtral", "MixtralForCausalLM", read, write, names(), resolve};
}

}  // namespace viaduct::families
