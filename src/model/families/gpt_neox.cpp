// GPT-NeoX (Black et al. 2022) and Pythia: both branches of a block begin at its input, each with a
// norm of its own; queries, keys and values in one tensor, head by head; positions in a quarter of
// each head.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kRotatedPart = 0.25, kBase = 10000;
constexpr LlamaForm kForm{.norm = NormKind::layer_norm, .gated = false};

/// The family has names of its own for two fields of positions; files of transformers 4 have both
/// names, and its code reads the family's.
RotaryDefaults read_own_positions(HfConfig& config) {
  const RotaryDefaults own{.base = config.number("rotary_emb_base", kBase),
                           .part = config.number("rotary_pct", kRotatedPart)};
  const auto agree = [&](const char* field, const char* common, double value) {
    VIADUCT_CHECK(ConfigError, !config.has(common) || config.number(common) == value,
                  "{}: {} is {}, but {} is {} (Hugging Face's code of the family reads {})",
                  config.where(), common, config.number(common, 0), field, value, field);
  };
  agree("rotary_emb_base", "rope_theta", own.base);
  agree("rotary_pct", "partial_rotary_factor", own.part);
  return own;
}

ModelConfig read_gpt_neox(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 0, -1, read_own_positions(config));
  check_heads_fill(config, model);
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "gelu");
  model.gated = false;
  model.parallel_block = config.boolean("use_parallel_residual", true);
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", true);
  model.up_bias = model.down_bias = true;
  model.residual_dropout = model.embedding_dropout = config.number("hidden_dropout", 0);
  model.padding_token = -1;  // its code trains the row of that token too
  return model;
}

nlohmann::ordered_json write_gpt_neox(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_heads_fill(model, choices);
  expect_own_keys(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model, kForm);
  write_rotated_part(model, json);
  json["rotary_pct"] = json["partial_rotary_factor"];
  json["rotary_emb_base"] = json["rope_theta"];
  for (const char* common :
       {"partial_rotary_factor", "rope_theta", "num_key_value_heads", "head_dim"})
    json.erase(common);
  json["layer_norm_eps"] = model.norm_eps;
  json["use_parallel_residual"] = model.parallel_block;
  json["attention_bias"] = model.qkv_bias;
  json["hidden_dropout"] = model.residual_dropout;
  return json;
}

void resolve_gpt_neox(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::gelu);
  fields.gated_linear_unit.resolve(false);
  fields.add_bias_linear.resolve(true);
  fields.parallel_block.resolve(true);
  fields.rotary_percent.resolve(kRotatedPart);
}

TensorNames names() {
  TensorNames names;
  names.token_embedding = "gpt_neox.embed_in";
  names.final_norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  names.input_norm = "gpt_neox.layers.{}.input_layernorm";
  names.qkv = "gpt_neox.layers.{}.attention.query_key_value";
  names.qkv_by_group = true;
  names.projection = "gpt_neox.layers.{}.attention.dense";
  names.mlp_norm = "gpt_neox.layers.{}.post_attention_layernorm";
  names.up = "gpt_neox.layers.{}.mlp.dense_h_to_4h";
  names.down = "gpt_neox.layers.{}.mlp.dense_4h_to_h";
  // Hugging Face's GPT-NeoX has none of these.
  names.q_norm = "gpt_neox.layers.{}.attention.q_norm";
  names.k_norm = "gpt_neox.layers.{}.attention.k_norm";
  names.sinks = "gpt_neox.layers.{}.attention.sinks";
  names.attention_output_norm = "gpt_neox.layers.{}.attention_output_norm";
  names.mlp_output_norm = "gpt_neox.layers.{}.mlp_output_norm";
  names.optional_prefix = "gpt_neox.";
  names.ignored_suffixes = {".attention.bias", ".attention.masked_bias",
                            ".attention.rotary_emb.inv_freq"};
  return names;
}

}  // namespace

ModelFamily gpt_neox() {
  ModelFamily family{"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox, write_gpt_neox,
                     names(),    resolve_gpt_neox};
  family.older_rotary_base = "rotary_emb_base";
  family.older_rotary_part = "rotary_pct";
  return family;
}

}  // namespace viaduct::families
