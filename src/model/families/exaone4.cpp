// EXAONE 4 (2025): Llama with norms after its branches only and on each head of q and k; its larger
// model has layers with a sliding window, and no positions in the layers without.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_exaone4(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.input_norms = false;
  model.output_norms = true;
  model.qk_norm = true;
  const int64_t window = config.integer_or_none("sliding_window", 4096);
  // Besides a number the field may be text ("LLLG"); then the layers are listed as well.
  int64_t every = 1;
  if (config.has("layer_types") || window == 0) {
    config.ignore({"sliding_window_pattern"});
  } else {
    every = read_interval(config, "sliding_window_pattern", 4);
  }
  model.windows = windows_by_layer(
      config, model.layers, window,
      [](int64_t layer, int64_t period) { return (layer + 1) % period != 0; }, every);
  if (window > 0) {
    for (const int64_t one : model.windows) model.no_rope.push_back(one == 0);
  }
  return model;
}

nlohmann::ordered_json write_exaone4(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  json["sliding_window"] = nullptr;
  write_layer_types(model, json);
  return json;
}

void resolve_exaone4(ModelFields& fields) {
  fields.pre_sublayer_norm.resolve(false);
  fields.post_sublayer_norm.resolve(true);
  fields.qk_layernorm.resolve(true);
}

}  // namespace

ModelFamily exaone4() {
  return {"exaone4",     "Exaone4ForCausalLM", read_exaone4,
          write_exaone4, gemma_norm_names(),   resolve_exaone4};
}

}  // namespace viaduct::families
