// Gemma 2 (2024): Gemma with norms before and after each branch, soft-caps on attention and logits,
// its own query scale, and a sliding window in every other layer.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

ModelConfig read_gemma2(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 256, 0);
  read_gemma_attention(config, {.attention_cap = 50, .logit_cap = 30}, model);
  const int64_t window = config.integer("sliding_window", 4096);
  // The first files of the family have the field twice; the second is not read by any code.
  const int64_t again = config.integer("sliding_window_size", window);
  VIADUCT_CHECK(ConfigError, again == window,
                "{}: sliding_window_size is {}, but sliding_window is {}", config.where(), again,
                window);
  model.windows = windows_by_layer(
      config, model.layers, window, [](int64_t layer, int64_t) { return layer % 2 == 0; }, 0);
  return model;
}

nlohmann::ordered_json write_gemma2(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_gemma_attention(model, json);
  write_layer_types(model, json);
  return json;
}

void resolve_gemma2(ModelFields& fields) {
  resolve_gemma(fields);
  fields.post_sublayer_norm.resolve(true);
  fields.attn_logit_softcapping.resolve(50.0);
  fields.final_logit_softcapping.resolve(30.0);
}

}  // namespace

void read_gemma_attention(HfConfig& config, const GemmaCaps& defaults, ModelConfig& model) {
  model.activation = activation_from_hf(config, "hidden_activation", "gelu_pytorch_tanh");
  config.ignore({"hidden_act"});
  refuse_bidirectional(config);
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.norm_weight_offset = 1;
  model.output_norms = true;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  const double query_scalar = config.number("query_pre_attn_scalar", 256);
  VIADUCT_CHECK(ConfigError, query_scalar > 0,
                "{}: query_pre_attn_scalar is {}, expected more than 0", config.where(),
                query_scalar);
  model.attention_scale = 1 / std::sqrt(query_scalar);
  const auto cap = [&](const char* field, double unsaid) {
    if (!config.has(field)) return config.mentions(field) ? 0 : unsaid;  // null: none
    const double found = config.number(field);
    VIADUCT_CHECK(ConfigError, found > 0, "{}: {} is {}, expected more than 0, or null for none",
                  config.where(), field, found);
    return found;
  };
  model.attention_softcap = cap("attn_logit_softcapping", defaults.attention_cap);
  model.logit_softcap = cap("final_logit_softcapping", defaults.logit_cap);
}

void write_gemma_attention(const ModelConfig& model, nlohmann::ordered_json& json) {
  json["hidden_activation"] = json["hidden_act"];
  json["attention_bias"] = model.qkv_bias;
  // The scale is 1 / sqrt of an integer: write that integer, not its rounded inverse.
  const double scalar = 1 / (model.attention_scale * model.attention_scale);
  const bool whole = std::abs(scalar - std::round(scalar)) < 1e-9 * scalar;
  json["query_pre_attn_scalar"] = scalar;
  // transformers 5 takes no other type.
  if (whole) json["query_pre_attn_scalar"] = std::llround(scalar);
  json["attn_logit_softcapping"] = nullptr;
  if (model.attention_softcap > 0) json["attn_logit_softcapping"] = model.attention_softcap;
  json["final_logit_softcapping"] = nullptr;
  if (model.logit_softcap > 0) json["final_logit_softcapping"] = model.logit_softcap;
}

TensorNames gemma_norm_names() {
  TensorNames names = llama_names();
  names.attention_output_norm = "model.layers.{}.post_attention_layernorm";
  names.mlp_norm = "model.layers.{}.pre_feedforward_layernorm";
  names.mlp_output_norm = "model.layers.{}.post_feedforward_layernorm";
  return names;
}

ModelFamily gemma2() {
  return {"gemma2",     "Gemma2ForCausalLM", read_gemma2,
          write_gemma2, gemma_norm_names(),  resolve_gemma2};
}

}  // namespace viaduct::families
