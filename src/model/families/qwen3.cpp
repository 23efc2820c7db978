// Qwen 3: Qwen 2 with RMS norms per head on q and k instead of biases.

#include <nlohmann/json.hpp>

#include "model/families/families.h"

namespace viaduct::families {
namespace {

ModelConfig read(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 128);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.windows = read_qwen_windows(config, model.layers);
  return model;
}

std::string write(const ModelConfig& model) {
  auto json = nlohmann::ordered_json::parse(write_qwen_windows(model, write_llama_like(model)));
  json["attention_bias"] = model.qkv_bias;
  return json.dump();
}

}  // namespace

ModelFamily qwen3() {
  return {"qwen3", "Qwen3ForCausalLM", read, write, llama_names()};
}

}  // namespace viaduct::families
