// OLMo 2 (2024): Llama with norms after its branches only, and on all heads of q and of k.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {

ModelConfig read_olmo(HfConfig& config, const RotaryDefaults& rotary) {
  ModelConfig model = read_llama_like(config, 0, 1, rotary);
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.input_norms = false;
  model.output_norms = true;
  model.qk_norm = true;
  model.qk_norm_per_head = false;
  return model;
}

void resolve_olmo(ModelFields& fields) {
  fields.pre_sublayer_norm.resolve(false);
  fields.post_sublayer_norm.resolve(true);
  fields.qk_layernorm.resolve(true);
  fields.qk_layernorm_per_head.resolve(false);
}

namespace {

ModelConfig read_olmo2(HfConfig& config) {
  return read_olmo(config, {});
}

nlohmann::ordered_json write_olmo2(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  return json;
}

}  // namespace

ModelFamily olmo2() {
  return {"olmo2", "Olmo2ForCausalLM", read_olmo2, write_olmo2, gemma_norm_names(), resolve_olmo};
}

}  // namespace viaduct::families
