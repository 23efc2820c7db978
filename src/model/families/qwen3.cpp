// Qwen 3: Qwen 2 with RMS norms per head on q and k instead of biases.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_qwen3(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 128);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.windows = read_qwen_windows(config, model.layers);
  return model;
}

nlohmann::ordered_json write_qwen3(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_qwen_windows(model, json);
  json["attention_bias"] = model.qkv_bias;
  return json;
}

void resolve_qwen3(ModelFields& fields) {
  fields.qk_layernorm.resolve(true);
  fields.layernorm_epsilon.resolve(1e-6);
}

}  // namespace

ModelFamily qwen3() {
  return {"qwen3", "Qwen3ForCausalLM", read_qwen3, write_qwen3, llama_names(), resolve_qwen3};
}

}  // namespace viaduct::families
