// BLOOM (BigScience 2022, arXiv 2211.05100): GPT-2's block with ALiBi in place of positions, a norm
// of the embeddings, and queries, keys and values in one tensor, head by head.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

/// A size that has two names; `field` is transformers' own.
int64_t read_size(HfConfig& config, const char* field, const char* other, int64_t unsaid) {
  if (!config.has(other)) return config.integer(field, unsaid);
  const int64_t size = config.integer(other);
  VIADUCT_CHECK(ConfigError, config.integer(field, size) == size,
                "{}: {} is {}, but {} is {}: expected the same number", config.where(), field,
                config.integer(field), other, size);
  return size;
}

ModelConfig read_bloom(HfConfig& config) {
  ModelConfig model;
  model.layers = read_size(config, "n_layer", "num_hidden_layers", 2);
  model.hidden = read_size(config, "hidden_size", "n_embed", 64);
  model.heads = read_size(config, "n_head", "num_attention_heads", 8);
  fill_with_heads(config, "n_head", "hidden_size", model);
  model.feed_forward = 4 * model.hidden;
  const int64_t inner = config.integer("n_inner", model.feed_forward);
  VIADUCT_CHECK(ConfigError, inner == model.feed_forward,
                "{}: n_inner {} is not supported (supported: 4 · hidden_size, {})", config.where(),
                inner, model.feed_forward);
  expect_only(config, "apply_residual_connection_post_layernorm",
              config.boolean("apply_residual_connection_post_layernorm", false), false);
  model.vocabulary = config.integer("vocab_size", 250880);
  model.max_positions = config.integer("seq_length", 2048);
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.embedding_norm = true;
  model.activation = ActivationKind::gelu_tanh;
  model.gated = false;
  model.positions = PositionKind::linear_bias;
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias = true;
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.residual_dropout = config.number("hidden_dropout", 0);
  model.attention_dropout = config.number("attention_dropout", 0);
  // Such a model sums partial products of the projections, and leaves their biases out.
  const int64_t parts = config.integer("pretraining_tp", 1);
  VIADUCT_CHECK(ConfigError, parts <= 1 || !config.boolean("slow_but_exact", false),
                "{}: slow_but_exact true with pretraining_tp {} is not supported (supported: "
                "false, or pretraining_tp 1)",
                config.where(), parts);
  // Kernels, and fields of the code that it was trained with, which no code reads.
  config.ignore({"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
                 "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact"});
  return model;
}

nlohmann::ordered_json write_bloom(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_form(
      model, {.norm = NormKind::layer_norm, .gated = false, .positions = PositionKind::linear_bias},
      choices);
  choices.expect(model.embedding_norm, "embedding_norm", "true", "false");
  choices.expect(model.activation == ActivationKind::gelu_tanh, "activation_func", "gelu_tanh",
                 "another one");
  choices.expect(model.feed_forward == 4 * model.hidden, "ffn_hidden_size",
                 fmt::format("4 · hidden_size = {}", 4 * model.hidden), model.feed_forward);
  expect_own_keys(model, choices);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["n_layer"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["n_head"] = model.heads;
  json["seq_length"] = model.max_positions;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["hidden_dropout"] = model.residual_dropout;
  json["attention_dropout"] = model.attention_dropout;
  json["apply_residual_connection_post_layernorm"] = false;
  return json;
}

void resolve_bloom(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.embedding_norm.resolve(true);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.gated_linear_unit.resolve(false);
  fields.add_bias_linear.resolve(true);
  fields.position_embedding_type.resolve(PositionKind::linear_bias);
  fields.share_embeddings_and_output_weights.resolve(true);
}

TensorNames names() {
  TensorNames names;
  names.token_embedding = "transformer.word_embeddings";
  names.embedding_norm = "transformer.word_embeddings_layernorm";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.input_norm = "transformer.h.{}.input_layernorm";
  names.qkv = "transformer.h.{}.self_attention.query_key_value";
  names.qkv_by_group = true;
  names.projection = "transformer.h.{}.self_attention.dense";
  names.mlp_norm = "transformer.h.{}.post_attention_layernorm";
  names.up = "transformer.h.{}.mlp.dense_h_to_4h";
  names.down = "transformer.h.{}.mlp.dense_4h_to_h";
  // Hugging Face's BLOOM has none of these.
  names.q_norm = "transformer.h.{}.self_attention.q_norm";
  names.k_norm = "transformer.h.{}.self_attention.k_norm";
  names.attention_output_norm = "transformer.h.{}.attention_output_norm";
  names.mlp_output_norm = "transformer.h.{}.mlp_output_norm";
  names.optional_prefix = "transformer.";
  return names;
}

}  // namespace

ModelFamily bloom() {
  return {"bloom", "BloomForCausalLM", read_bloom, write_bloom, names(), resolve_bloom};
}

}  // namespace viaduct::families
