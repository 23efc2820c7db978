// Mistral (Jiang et al. 2023): Llama with a sliding window in every layer.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"

namespace viaduct::families {
namespace {

ModelConfig read_mistral(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  const int64_t window = config.integer_or_none("sliding_window", 4096);
  for (const std::string& type : config.texts("layer_types")) {
    const char* expected = window > 0 ? "sliding_attention" : "full_attention";
    VIADUCT_CHECK(ConfigError, type == expected,
                  "{}: layer_types has {}, but sliding_window is {} for every layer (expected {})",
                  config.where(), type, window, expected);
  }
  model.windows.assign(static_cast<size_t>(model.layers), window);
  return model;
}

nlohmann::ordered_json write_mistral(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_common_window(model, json);
  return json;
}

}  // namespace

ModelFamily mistral() {
  return {"mistral", "MistralForCausalLM", read_mistral, write_mistral, llama_names()};
}

}  // namespace viaduct::families
