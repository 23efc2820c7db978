// Phi 1, 1.5 and 2 (Gunasekar et al. 2023): both branches of a block begin at its input, after one
// norm; layer norms, biases everywhere, on the logits too, and positions in a part of each head.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kRotatedPart = 0.5;
constexpr LlamaForm kForm{.norm = NormKind::layer_norm, .gated = false};

ModelConfig read_phi(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, -1, {.part = kRotatedPart});
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "gelu_new");
  model.gated = false;
  model.parallel_block = model.shared_norm = true;
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias = true;
  model.head_bias = true;
  model.residual_dropout = config.number("resid_pdrop", 0);
  model.embedding_dropout = config.number("embd_pdrop", 0);
  return model;
}

nlohmann::ordered_json write_phi(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, kForm);
  write_rotated_part(model, json);
  json["layer_norm_eps"] = model.norm_eps;
  json["resid_pdrop"] = model.residual_dropout;
  json["embd_pdrop"] = model.embedding_dropout;
  return json;
}

void resolve_phi(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.gated_linear_unit.resolve(false);
  fields.add_bias_linear.resolve(true);
  fields.add_head_bias.resolve(true);
  fields.parallel_block.resolve(true);
  fields.parallel_block_shared_norm.resolve(fields.parallel_block.value());
  fields.rotary_percent.resolve(kRotatedPart);
}

TensorNames names() {
  TensorNames names = llama_names();
  names.final_norm = "model.final_layernorm";
  names.projection = "model.layers.{}.self_attn.dense";
  names.up = "model.layers.{}.mlp.fc1";
  names.down = "model.layers.{}.mlp.fc2";
  return names;
}

}  // namespace

ModelFamily phi() {
  return {"phi", "PhiForCausalLM", read_phi, write_phi, names(), resolve_phi};
}

}  // namespace viaduct::families
