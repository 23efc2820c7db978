// Granite 3 (2024): Llama with factors on embeddings, scores, branches and logits.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {

void read_granite_factors(HfConfig& config, ModelConfig& model) {
  const auto factor = [&](const char* field) {
    const double value = config.number(field, 1);
    VIADUCT_CHECK(ConfigError, value > 0 && std::isfinite(value),
                  "{}: {} is {}, expected a number above 0", config.where(), field, value);
    return value;
  };
  model.embedding_scale = factor("embedding_multiplier");
  model.attention_scale = factor("attention_multiplier");
  model.residual_scale = factor("residual_multiplier");
  model.logit_scale = 1 / factor("logits_scaling");
}

void write_granite_factors(const ModelConfig& model, nlohmann::ordered_json& json) {
  json["embedding_multiplier"] = model.embedding_scale;
  json["attention_multiplier"] = model.attention_scale;
  json["residual_multiplier"] = model.residual_scale;
  // Files have the divisor, mostly a whole number.
  const double divisor = 1 / model.logit_scale;
  const bool whole = std::abs(divisor - std::round(divisor)) < 1e-12 * divisor;
  json["logits_scaling"] = whole ? std::round(divisor) : divisor;
}

void resolve_granite(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(1e-6);
  fields.softmax_scale.resolve(1.0);
}

namespace {

ModelConfig read_granite(HfConfig& config) {
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  read_llama_biases(config, model);
  read_granite_factors(config, model);
  return model;
}

nlohmann::ordered_json write_granite(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_llama_biases(model, json);
  write_granite_factors(model, json);
  return json;
}

}  // namespace

ModelFamily granite() {
  return {"granite",     "GraniteForCausalLM", read_granite,
          write_granite, llama_names(),        resolve_granite};
}

}  // namespace viaduct::families
