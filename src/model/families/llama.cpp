// Llama 1 to 3.x (Touvron et al. 2023): RMS norm, SwiGLU, rotary positions, grouped key-value
// heads.

#include "model/families/families.h"

#include "base/json.h"

namespace viaduct::families {
namespace {

ModelConfig read_llama(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  read_llama_biases(config, model);
  return model;
}

nlohmann::ordered_json write_llama(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_llama_biases(model, json);
  return json;
}

}  // namespace

ModelFamily llama() {
  return {"llama", "LlamaForCausalLM", read_llama, write_llama, llama_names()};
}

}  // namespace viaduct::families
