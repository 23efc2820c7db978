// StableLM (2023 to 2024): Llama with layer norms and positions in a quarter of each head; in one
// form both branches of a block begin at its input, after one norm.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kRotatedPart = 0.25;
constexpr LlamaForm kForm{.norm = NormKind::layer_norm};

ModelConfig read_stablelm(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, -1, {.part = kRotatedPart});
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("use_qkv_bias", false);
  model.qk_norm = model.qk_norm_own_weights = config.boolean("qk_layernorm", false);
  model.parallel_block = model.shared_norm = config.boolean("use_parallel_residual", false);
  return model;
}

nlohmann::ordered_json write_stablelm(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, kForm);
  write_rotated_part(model, json);
  json["layer_norm_eps"] = model.norm_eps;
  json["use_qkv_bias"] = model.qkv_bias;
  json["qk_layernorm"] = model.qk_norm;
  json["use_parallel_residual"] = model.parallel_block;
  return json;
}

void resolve_stablelm(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.rotary_percent.resolve(kRotatedPart);
  fields.qk_layernorm_own_weights.resolve(fields.qk_layernorm.value_or(false) &&
                                          fields.qk_layernorm_per_head.value_or(true));
}

TensorNames names() {
  TensorNames names = llama_names();
  names.q_head_norm = "model.layers.{}.self_attn.q_layernorm.norms.{}";
  names.k_head_norm = "model.layers.{}.self_attn.k_layernorm.norms.{}";
  return names;
}

}  // namespace

ModelFamily stablelm() {
  return {"stablelm", "StableLmForCausalLM", read_stablelm, write_stablelm,
          names(),    resolve_stablelm};
}

}  // namespace viaduct::families
