// OLMo (Groeneveld et al. 2024, arXiv 2402.00838): Llama with layer norms that have neither weights
// nor biases.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr LlamaForm kForm{.norm = NormKind::layer_norm};
// In Hugging Face's code; no field says it.
constexpr double kNormEpsilon = 1e-5;

ModelConfig read_olmo1(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, 1);
  model.norm = NormKind::layer_norm;
  model.norm_eps = kNormEpsilon;
  model.norm_bias = false;
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  check_heads_fill(config, model);
  return model;
}

nlohmann::ordered_json write_olmo1(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.norm_eps == kNormEpsilon, "layernorm_epsilon", "1e-05", model.norm_eps);
  choices.expect(!model.norm_bias, "layernorm_bias", "false, as its norms have no weights", "true");
  choices.expect(model.norm_weight_offset == 0, "layernorm_zero_centered_gamma",
                 "false, as its norms have no weights", "true");
  choices.expect(model.qkv_bias == model.projection_bias, "add_qkv_bias",
                 "the value of add_attention_output_bias", model.qkv_bias);
  choices.expect(!model.up_bias && !model.down_bias, "add_mlp_bias", "false", "true");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model, kForm);
  json["attention_bias"] = model.qkv_bias;
  return json;
}

void resolve_olmo1(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.layernorm_bias.resolve(false);
}

TensorNames names() {
  TensorNames names = llama_names();
  names.input_norm = names.mlp_norm = names.final_norm = "";  // without weights
  return names;
}

}  // namespace

ModelFamily olmo() {
  return {"olmo", "OlmoForCausalLM", read_olmo1, write_olmo1, names(), resolve_olmo1};
}

}  // namespace viaduct::families
