// MPT (MosaicML 2023): ALiBi in place of positions, layer norms and projections without biases,
// queries, keys and values in one tensor. With `alibi: false` its publisher's code has learned
// positions; Hugging Face's code computes ALiBi whatever the file says.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

/// Hugging Face's code has 8 whatever the file says; its publisher's has what it says.
constexpr double kLargestExponent = 8;

/// `learned`: whether the file has positions for the stream.
void read_attention(HfConfig attention, bool learned, ModelConfig& model) {
  expect_only(attention, "attn_type", attention.text("attn_type", "multihead_attention"),
              "multihead_attention");
  for (const char* field : {"prefix_lm", "qk_ln", "attn_uses_sequence_id"})
    expect_only(attention, field, attention.boolean(field, false), false);
  if (!attention.boolean("alibi", true)) {
    VIADUCT_CHECK(ConfigError, learned,
                  "{}: alibi is false, and so is learned_pos_emb: tokens would have no positions; "
                  "expected one of them to be true",
                  attention.where());
    model.positions = PositionKind::learned;
  }
  expect_only(attention, "alibi_bias_max", attention.number("alibi_bias_max", kLargestExponent),
              kLargestExponent);
  VIADUCT_CHECK(ConfigError, !attention.has("clip_qkv"),
                "{}: clip_qkv {} is not supported (supported: null)", attention.where(),
                attention.number("clip_qkv"));
  model.residual_dropout = model.attention_dropout = attention.number("attn_pdrop", 0);
  model.attention_scale = attention.number("softmax_scale", model.attention_scale);
  attention.ignore({"attn_impl"});
  (void)attention.finish(UnknownFields::refused);
}

ModelConfig read_mpt(HfConfig& config) {
  ModelConfig model;
  model.layers = config.integer("n_layers", 24);
  model.hidden = config.integer("d_model", 2048);
  model.heads = config.integer("n_heads", 16);
  fill_with_heads(config, "n_heads", "d_model", model);
  expect_only(config, "expansion_ratio", config.integer("expansion_ratio", 4), 4);
  model.feed_forward = 4 * model.hidden;
  model.vocabulary = config.integer("vocab_size", 50368);
  model.max_positions = config.integer("max_seq_len", 2048);
  model.norm = NormKind::layer_norm;
  model.norm_bias = false;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  const std::string norm = config.text("norm_type", "low_precision_layernorm");
  VIADUCT_CHECK(ConfigError, norm == "low_precision_layernorm" || norm == "layernorm",
                "{}: norm_type {} is not supported (supported: layernorm, low_precision_layernorm)",
                config.where(), norm);
  expect_only(config, "no_bias", config.boolean("no_bias", true), true);
  model.activation = ActivationKind::gelu;
  model.gated = false;
  model.positions = PositionKind::linear_bias;
  model.linear_bias_exponent = kLargestExponent;
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  const bool learned = config.boolean("learned_pos_emb", true);
  if (config.has("attn_config")) read_attention(config.object("attn_config"), learned, model);
  // Its code reads none of them.
  for (const char* field : {"emb_pdrop", "resid_pdrop"})
    expect_only(config, field, config.number(field, 0), 0);
  VIADUCT_CHECK(ConfigError, !config.has("logit_scale"),
                "{}: logit_scale is not supported (supported: null)", config.where());
  expect_only(config, "embedding_fraction", config.number("embedding_fraction", 1), 1);
  // How its publisher's code begins, runs and logs.
  config.ignore({"init_config", "init_device", "tokenizer_name", "verbose"});
  return model;
}

nlohmann::ordered_json write_mpt(const ModelConfig& model) {
  const bool learned = model.positions == PositionKind::learned;
  FamilyChoices choices(model.family);
  expect_form(model,
              {.norm = NormKind::layer_norm,
               .gated = false,
               .positions = learned ? PositionKind::learned : PositionKind::linear_bias},
              choices);
  choices.expect(!model.norm_bias, "layernorm_bias", "false", "true");
  choices.expect(!model.qkv_bias && !model.projection_bias && !model.up_bias && !model.down_bias,
                 "add_bias_linear", "no biases", "one");
  choices.expect(model.activation == ActivationKind::gelu, "activation_func", "gelu",
                 "another one");
  choices.expect(model.feed_forward == 4 * model.hidden, "ffn_hidden_size",
                 fmt::format("4 · hidden_size = {}", 4 * model.hidden), model.feed_forward);
  expect_own_keys(model, choices);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["n_layers"] = model.layers;
  json["d_model"] = model.hidden;
  json["n_heads"] = model.heads;
  json["expansion_ratio"] = 4;
  json["max_seq_len"] = model.max_positions;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["no_bias"] = true;
  json["learned_pos_emb"] = learned;
  nlohmann::ordered_json attention;
  attention["alibi"] = !learned;
  attention["alibi_bias_max"] = 8;
  attention["attn_pdrop"] = 0;  // transformers 5 opens only whole numbers
  if (model.attention_dropout != 0) attention["attn_pdrop"] = model.attention_dropout;
  attention["softmax_scale"] = model.attention_scale;
  json["attn_config"] = attention;
  return json;
}

void resolve_mpt(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.layernorm_bias.resolve(false);
  fields.activation_func.resolve(FeedForwardActivation::gelu);
  fields.gated_linear_unit.resolve(false);
  fields.position_embedding_type.resolve(PositionKind::linear_bias);
  fields.share_embeddings_and_output_weights.resolve(true);
}

TensorNames names() {
  TensorNames names;
  names.token_embedding = "transformer.wte";
  names.position_embedding = "transformer.wpe";
  names.final_norm = "transformer.norm_f";
  names.head = "lm_head";
  names.input_norm = "transformer.blocks.{}.norm_1";
  names.qkv = "transformer.blocks.{}.attn.Wqkv";
  names.projection = "transformer.blocks.{}.attn.out_proj";
  names.mlp_norm = "transformer.blocks.{}.norm_2";
  names.up = "transformer.blocks.{}.ffn.up_proj";
  names.down = "transformer.blocks.{}.ffn.down_proj";
  // Hugging Face's MPT has none of these.
  names.q_norm = "transformer.blocks.{}.attn.q_norm";
  names.k_norm = "transformer.blocks.{}.attn.k_norm";
  names.attention_output_norm = "transformer.blocks.{}.attention_output_norm";
  names.mlp_output_norm = "transformer.blocks.{}.mlp_output_norm";
  names.optional_prefix = "transformer.";
  return names;
}

}  // namespace

ModelFamily mpt() {
  return {"mpt",
          "MptForCausalLM",
          read_mpt,
          write_mpt,
          names(),
          resolve_mpt,
          RotaryPairs::as_config_says,
          "MPTForCausalLM"};
}

}  // namespace viaduct::families
