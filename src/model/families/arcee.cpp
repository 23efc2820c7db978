// Arcee's foundation models (AFM, 2025): Llama with a squared ReLU and no gate.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_arcee(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "relu2");
  model.gated = false;
  read_llama_biases(config, model);
  return model;
}

nlohmann::ordered_json write_arcee(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, {.gated = false});
  write_llama_biases(model, json);
  return json;
}

void resolve_arcee(ModelFields& fields) {
  fields.activation_func.resolve(FeedForwardActivation::squared_relu);
  fields.gated_linear_unit.resolve(false);
}

}  // namespace

ModelFamily arcee() {
  return {"arcee", "ArceeForCausalLM", read_arcee, write_arcee, llama_names(), resolve_arcee};
}

}  // namespace viaduct::families
