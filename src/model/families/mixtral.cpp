// Mixtral (Jiang et al. 2024, arXiv 2401.04088): Mistral whose feed-forwards are mixtures of
// experts, with a softmax over the chosen ones.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kRotaryBase = 1e6;

ModelConfig read_mixtral(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, -1, {.base = kRotaryBase});
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.windows.assign(static_cast<size_t>(model.layers), config.integer("sliding_window", 0));
  read_local_experts(config, {.experts = 8, .topk = 2}, model);
  return model;
}

nlohmann::ordered_json write_mixtral(const ModelConfig& model) {
  FamilyChoices choices("mixtral");
  expect_experts_everywhere(model, choices);
  expect_local_experts(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  write_common_window(model, json);
  write_local_experts(model, json);
  return json;
}

}  // namespace

TensorNames mixtral_names() {
  TensorNames names = llama_names();
  names.gate = names.up = names.down = "";
  names.router = "model.layers.{}.block_sparse_moe.gate";
  names.expert_gate = "model.layers.{}.block_sparse_moe.experts.{}.w1";
  names.expert_up = "model.layers.{}.block_sparse_moe.experts.{}.w3";
  names.expert_down = "model.layers.{}.block_sparse_moe.experts.{}.w2";
  names.peft_experts = "model.layers.{}.mlp.experts";
  names.peft_router = "model.layers.{}.mlp.gate.weight";
  return names;
}

namespace {

void resolve_mixtral(ModelFields& fields) {
  fields.moe.num_moe_experts.resolve(8);
  fields.rotary_base.resolve(kRotaryBase);
}

}  // namespace

ModelFamily mixtral() {
  return {"mixtral",     "MixtralForCausalLM", read_mixtral,
          write_mixtral, mixtral_names(),      resolve_mixtral};
}

}  // namespace viaduct::families
