// Ministral (2024): Mistral whose layers with a window are listed, one of four without.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_ministral(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  const int64_t window = config.integer_or_none("sliding_window", 4096);
  model.windows = windows_by_layer(
      config, model.layers, window, [](int64_t, int64_t window) { return window > 0; }, window);
  return model;
}

nlohmann::ordered_json write_ministral(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_layer_types(model, json);
  return json;
}

void resolve_ministral(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(1e-6);
}

}  // namespace

ModelFamily ministral() {
  return {"ministral",     "MinistralForCausalLM", read_ministral,
          write_ministral, llama_names(),          resolve_ministral};
}

}  // namespace viaduct::families
