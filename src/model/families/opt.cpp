// OPT (Zhang et al. 2022, arXiv 2205.01068): GPT-2's block with ReLU, separate projections stored
// [out, in], and a table of positions whose first two rows stand before position 0.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

/// Variants that the larger models do not have; each is refused by its field.
void refuse_variants(HfConfig& config, const ModelConfig& model) {
  VIADUCT_CHECK(ConfigError, config.boolean("do_layer_norm_before", true),
                "{}: do_layer_norm_before false is not supported (supported: true; opt-350m has "
                "its norms after the residual addition)",
                config.where());
  const int64_t width = config.integer("word_embed_proj_dim", model.hidden);
  VIADUCT_CHECK(ConfigError, width == model.hidden,
                "{}: word_embed_proj_dim {} is not supported (supported: hidden_size, {})",
                config.where(), width, model.hidden);
  expect_only(config, "_remove_final_layer_norm", config.boolean("_remove_final_layer_norm", false),
              false);
  expect_only(config, "layer_norm_elementwise_affine",
              config.boolean("layer_norm_elementwise_affine", true), true);
}

ModelConfig read_opt(HfConfig& config) {
  ModelConfig model;
  model.layers = config.integer("num_hidden_layers", 12);
  model.hidden = config.integer("hidden_size", 768);
  model.heads = config.integer("num_attention_heads", 12);
  refuse_variants(config, model);
  fill_with_heads(config, "num_attention_heads", "hidden_size", model);
  model.feed_forward = config.integer("ffn_dim", 3072);
  model.vocabulary = config.integer("vocab_size", 50272);
  model.padding_token = read_padding_token(config, 1, model.vocabulary);
  model.max_positions = config.integer("max_position_embeddings", 2048);
  model.norm = NormKind::layer_norm;
  model.norm_eps = 1e-5;
  model.activation = activation_from_hf(config, "activation_function", "relu");
  model.gated = false;
  model.positions = PositionKind::learned;
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias =
      config.boolean("enable_bias", true);
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.residual_dropout = config.number("dropout", 0.1);
  model.attention_dropout = config.number("attention_dropout", 0);
  model.init_std = config.number("init_std", 0.02);
  return model;
}

nlohmann::ordered_json write_opt(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_form(model,
              {.norm = NormKind::layer_norm, .gated = false, .positions = PositionKind::learned},
              choices);
  expect_own_keys(model, choices);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["num_hidden_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["word_embed_proj_dim"] = model.hidden;
  json["ffn_dim"] = model.feed_forward;
  json["num_attention_heads"] = model.heads;
  json["max_position_embeddings"] = model.max_positions;
  json["do_layer_norm_before"] = true;
  json["enable_bias"] = model.qkv_bias;
  json["activation_function"] = activation_to_hf(model.activation);
  json["dropout"] = model.residual_dropout;
  json["attention_dropout"] = model.attention_dropout;
  json["init_std"] = model.init_std;
  return json;
}

void resolve_opt(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::relu);
  fields.gated_linear_unit.resolve(false);
  fields.add_bias_linear.resolve(true);
  fields.position_embedding_type.resolve(PositionKind::learned);
  fields.share_embeddings_and_output_weights.resolve(true);
}

TensorNames names() {
  TensorNames names;
  names.token_embedding = "model.decoder.embed_tokens";
  names.position_embedding = "model.decoder.embed_positions";
  names.rows_before_positions = 2;
  names.final_norm = "model.decoder.final_layer_norm";
  names.head = "lm_head";
  names.input_norm = "model.decoder.layers.{}.self_attn_layer_norm";
  names.q = "model.decoder.layers.{}.self_attn.q_proj";
  names.k = "model.decoder.layers.{}.self_attn.k_proj";
  names.v = "model.decoder.layers.{}.self_attn.v_proj";
  names.projection = "model.decoder.layers.{}.self_attn.out_proj";
  names.mlp_norm = "model.decoder.layers.{}.final_layer_norm";
  names.up = "model.decoder.layers.{}.fc1";
  names.down = "model.decoder.layers.{}.fc2";
  // Hugging Face's OPT has none of these.
  names.q_norm = "model.decoder.layers.{}.self_attn.q_norm";
  names.k_norm = "model.decoder.layers.{}.self_attn.k_norm";
  names.sinks = "model.decoder.layers.{}.self_attn.sinks";
  names.attention_output_norm = "model.decoder.layers.{}.post_self_attn_norm";
  names.mlp_output_norm = "model.decoder.layers.{}.post_mlp_norm";
  names.optional_prefix = "model.";
  return names;
}

}  // namespace

ModelFamily opt() {
  ModelFamily family{"opt", "OPTForCausalLM", read_opt, write_opt, names(), resolve_opt};
  family.positions_from_mask = true;
  return family;
}

}  // namespace viaduct::families
