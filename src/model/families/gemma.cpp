// Gemma (2024): Llama with GeGLU, norm weights stored as w − 1, and embeddings scaled by the square
// root of the hidden size.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_gemma(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 256, 0);
  model.activation = activation_from_hf(config, "hidden_activation", "gelu_pytorch_tanh");
  if (config.has("hidden_activation") && config.has("hidden_act")) {
    VIADUCT_CHECK(ConfigError, activation_from_hf(config, "hidden_act", "") == model.activation,
                  "{}: hidden_act {} and hidden_activation {} differ, and versions of Hugging "
                  "Face's code differ in which they read; expected the same in both",
                  config.where(), config.text("hidden_act"), config.text("hidden_activation"));
  }
  // Early configurations name "gelu" in hidden_act although the model was trained with the tanh
  // form.
  if (!config.has("hidden_activation") && config.text("hidden_act", "gelu") != "gelu") {
    model.activation = activation_from_hf(config, "hidden_act", "gelu_pytorch_tanh");
  }
  config.ignore({"hidden_act"});
  refuse_bidirectional(config);
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.norm_weight_offset = 1;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  return model;
}

nlohmann::ordered_json write_gemma(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  json["hidden_activation"] = json["hidden_act"];
  json["attention_bias"] = model.qkv_bias;
  return json;
}

}  // namespace

void refuse_bidirectional(HfConfig& config) {
  VIADUCT_CHECK(ConfigError, !config.boolean("use_bidirectional_attention", false),
                "{}: use_bidirectional_attention=true is not supported", config.where());
}

void resolve_gemma(ModelFields& fields) {
  fields.layernorm_zero_centered_gamma.resolve(true);
  fields.layernorm_epsilon.resolve(1e-6);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.share_embeddings_and_output_weights.resolve(true);
  if (!fields.hidden_size.is_auto()) {
    fields.embedding_multiplier.resolve(std::sqrt(static_cast<double>(fields.hidden_size.value())));
  }
}

ModelFamily gemma() {
  return {"gemma", "GemmaForCausalLM", read_gemma, write_gemma, llama_names(), resolve_gemma};
}

}  // namespace viaduct::families
