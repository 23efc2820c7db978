// Command R (Cohere 2024) and Aya: Llama whose branches both begin at the input of their block,
// after one layer norm without a bias; rotary pairs of neighbours, and a factor on the logits.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 500000, kLogitScale = 0.0625;
constexpr LlamaForm kForm{.norm = NormKind::layer_norm, .interleaved = true};

/// Versions of transformers have different defaults.
void require_base(HfConfig& config) {
  bool said = config.has("rope_theta");
  for (const char* field : {"rope_scaling", "rope_parameters"})
    said = said || (config.has(field) && config.object(field).has("rope_theta"));
  VIADUCT_CHECK(ConfigError, said,
                "{}: rope_theta is missing; expected a number, for versions of transformers take "
                "10000 and 500000 in its place",
                config.where());
}

ModelConfig read_command_r(HfConfig& config) {
  require_base(config);
  ModelConfig model = read_cohere(config, kBase);
  model.qk_norm = model.qk_norm_own_weights = config.boolean("use_qk_norm", false);
  return model;
}

nlohmann::ordered_json write_command_r(const ModelConfig& model) {
  nlohmann::ordered_json json = write_cohere(model);
  json["use_qk_norm"] = model.qk_norm;
  return json;
}

void resolve_command_r(ModelFields& fields) {
  resolve_cohere(fields);
  fields.rotary_base.resolve(kBase);
  fields.qk_layernorm_own_weights.resolve(fields.qk_layernorm.value_or(false) &&
                                          fields.qk_layernorm_per_head.value_or(true));
}

TensorNames names() {
  TensorNames names = llama_names();
  names.q_head_norm = names.q_norm;
  names.k_head_norm = names.k_norm;
  return names;
}

}  // namespace

ModelConfig read_cohere(HfConfig& config, double base) {
  ModelConfig model = read_llama_like(config, 0, 0, {.base = base, .interleaved = true});
  model.norm = NormKind::layer_norm;
  model.norm_bias = false;
  model.norm_eps = config.number("layer_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.parallel_block = model.shared_norm = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  VIADUCT_CHECK(ConfigError, config.has("logit_scale") || !config.mentions("logit_scale"),
                "{}: logit_scale is null, expected a number above 0", config.where());
  model.logit_scale = config.number("logit_scale", kLogitScale);
  VIADUCT_CHECK(ConfigError, model.logit_scale > 0 && std::isfinite(model.logit_scale),
                "{}: logit_scale is {}, expected a number above 0", config.where(),
                model.logit_scale);
  return model;
}

nlohmann::ordered_json write_cohere(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, kForm);
  json["layer_norm_eps"] = model.norm_eps;
  json["attention_bias"] = model.qkv_bias;
  json["logit_scale"] = model.logit_scale;
  return json;
}

void resolve_cohere(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.layernorm_bias.resolve(false);
  fields.parallel_block.resolve(true);
  fields.parallel_block_shared_norm.resolve(fields.parallel_block.value());
  fields.rotary_interleaved.resolve(true);
  fields.logit_multiplier.resolve(kLogitScale);
  fields.share_embeddings_and_output_weights.resolve(true);
}

ModelFamily cohere() {
  return {"cohere", "CohereForCausalLM", read_command_r,         write_command_r,
          names(),  resolve_command_r,   RotaryPairs::neighbours};
}

}  // namespace viaduct::families
