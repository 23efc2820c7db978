// T5 (Raffel et al. 2020, arXiv 1910.10683): encoder and decoder with relative position buckets,
// RMS norms, no biases, attention without a scale, ReLU, and a head tied to the embedding and
// scaled. Version 1.1 and FLAN-T5: gated GELU, a head of its own, not scaled.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr std::string_view kGated = "gated-";

/// Activation and gate. `feed_forward_proj` says both; `dense_act_fn` and `is_gated_act`, which
/// Hugging Face's code derives from it and writes besides, count where they are there.
void read_feed_forward(HfConfig& config, ModelConfig& model) {
  const std::string projection = config.text("feed_forward_proj", "relu");
  const bool gated = projection.starts_with(kGated);
  std::string activation = gated ? projection.substr(kGated.size()) : projection;
  if (gated && activation == "gelu") activation = "gelu_new";
  model.activation = activation_from_hf(config, "dense_act_fn", activation);
  model.gated = config.boolean("is_gated_act", gated);
}

/// Whether the head reads the decoder's output times hidden_size^-1/2. Files of transformers 5 say
/// so; older ones by whether embedding and head are tied.
bool scales_head(HfConfig& config) {
  const bool ties = config.boolean("tie_word_embeddings", true);
  return config.boolean("scale_decoder_outputs", ties);
}

double head_scale(const ModelConfig& model) {
  return 1 / std::sqrt(static_cast<double>(model.hidden));
}

ModelConfig read_t5(HfConfig& config) {
  ModelConfig model;
  VIADUCT_CHECK(ConfigError, config.boolean("is_encoder_decoder", true),
                "{}: is_encoder_decoder=false is not supported: expected encoder and decoder",
                config.where());
  model.encoder.layers = config.integer("num_layers", 6);
  model.layers = config.integer("num_decoder_layers", model.encoder.layers);
  VIADUCT_CHECK(ConfigError, model.encoder.layers >= 1, "{}: num_layers {}: expected at least 1",
                config.where(), model.encoder.layers);
  model.hidden = config.integer("d_model", 512);
  model.heads = model.kv_heads = config.integer("num_heads", 8);
  model.head_dim = config.integer("d_kv", 64);
  model.feed_forward = config.integer("d_ff", 2048);
  model.vocabulary = config.integer("vocab_size", 32128);
  model.max_positions = config.integer("n_positions", 512);  // positions are not limited
  model.norm_eps = config.number("layer_norm_epsilon", 1e-6);
  read_feed_forward(config, model);
  model.positions = PositionKind::relative;
  model.relative = {config.integer("relative_attention_num_buckets", 32),
                    config.integer("relative_attention_max_distance", 128)};
  model.attention_scale = 1;
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  if (model.hidden > 0 && scales_head(config)) model.logit_scale = head_scale(model);
  model.encoder.start_token = config.integer("decoder_start_token_id", 0);
  model.encoder.padding_token = config.integer("pad_token_id", 0);
  // Hugging Face's code has dropout inside of the feed-forward and after final norms too.
  model.embedding_dropout = model.residual_dropout = model.attention_dropout =
      config.number("dropout_rate", 0.1);
  config.ignore({"initializer_factor"});  // before training
  return model;
}

nlohmann::ordered_json write_t5(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.norm == NormKind::rms_norm, "normalization", "RMSNorm", "LayerNorm");
  choices.expect(model.positions == PositionKind::relative, "position_embedding_type", "relative",
                 "another one");
  choices.expect(model.kv_heads == model.heads, "num_query_groups",
                 fmt::format("num_attention_heads = {}", model.heads), model.kv_heads);
  choices.expect(!model.qkv_bias && !model.projection_bias && !model.up_bias, "add_bias_linear",
                 "false", "true");
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["is_encoder_decoder"] = true;
  json["num_layers"] = model.encoder.layers;
  json["num_decoder_layers"] = model.layers;
  json["d_model"] = model.hidden;
  json["num_heads"] = model.heads;
  json["d_kv"] = model.head_dim;
  json["d_ff"] = model.feed_forward;
  json["n_positions"] = model.max_positions;
  json["layer_norm_epsilon"] = model.norm_eps;
  const bool tanh = model.activation == ActivationKind::gelu_tanh;
  const std::string activation = tanh ? "gelu_new" : activation_to_hf(model.activation);
  json["feed_forward_proj"] =
      model.gated ? std::string(kGated) + (tanh ? "gelu" : activation) : activation;
  json["dense_act_fn"] = activation;
  json["is_gated_act"] = model.gated;
  json["relative_attention_num_buckets"] = model.relative.buckets;
  json["relative_attention_max_distance"] = model.relative.max_distance;
  json["dropout_rate"] = model.residual_dropout;
  json["scale_decoder_outputs"] = model.logit_scale != 1;
  json["decoder_start_token_id"] = model.encoder.start_token;
  return json;
}

void resolve_t5(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(1e-6);
  fields.position_embedding_type.resolve(PositionKind::relative);
  fields.softmax_scale.resolve(1.0);
  fields.activation_func.resolve(FeedForwardActivation::relu);
  fields.gated_linear_unit.resolve(false);
  fields.share_embeddings_and_output_weights.resolve(true);
  if (!fields.num_layers.is_auto())
    fields.encoder.encoder_num_layers.resolve(fields.num_layers.value());
  const bool tied = fields.share_embeddings_and_output_weights.value();
  if (tied && !fields.hidden_size.is_auto())
    fields.logit_multiplier.resolve(1 / std::sqrt(static_cast<double>(fields.hidden_size.value())));
}

/// Of a stack ("encoder", "decoder") whose blocks have the feed-forward in place `feed_forward`.
TensorNames stack_names(const std::string& stack, int feed_forward) {
  const std::string block = stack + ".block.{}.layer.";
  const std::string dense = block + std::to_string(feed_forward);
  TensorNames names;
  names.token_embedding = "shared";
  names.final_norm = stack + ".final_layer_norm";
  names.head = "lm_head";
  names.input_norm = block + "0.layer_norm";
  names.q = block + "0.SelfAttention.q";
  names.k = block + "0.SelfAttention.k";
  names.v = block + "0.SelfAttention.v";
  names.projection = block + "0.SelfAttention.o";
  names.relative_table = stack + ".block.0.layer.0.SelfAttention.relative_attention_bias";
  names.mlp_norm = dense + ".layer_norm";
  names.gate = dense + ".DenseReluDense.wi_0";
  names.up = dense + ".DenseReluDense.wi_1";
  names.plain_up = dense + ".DenseReluDense.wi";
  names.down = dense + ".DenseReluDense.wo";
  names.token_embedding_copies = {"encoder.embed_tokens", "decoder.embed_tokens"};
  // Beside these a table that the first published files have and nothing reads.
  names.ignored_suffixes = {"coder.embed_tokens.weight",
                            ".EncDecAttention.relative_attention_bias.weight"};
  return names;
}

TensorNames decoder_names() {
  TensorNames names = stack_names("decoder", 2);
  names.cross_norm = "decoder.block.{}.layer.1.layer_norm";
  names.cross_q = "decoder.block.{}.layer.1.EncDecAttention.q";
  names.cross_k = "decoder.block.{}.layer.1.EncDecAttention.k";
  names.cross_v = "decoder.block.{}.layer.1.EncDecAttention.v";
  names.cross_projection = "decoder.block.{}.layer.1.EncDecAttention.o";
  return names;
}

}  // namespace

ModelFamily t5() {
  ModelFamily family{"t5",      "T5ForConditionalGeneration", read_t5, write_t5, decoder_names(),
                     resolve_t5};
  family.publishers_architecture = "T5WithLMHeadModel";
  family.encoder_names = stack_names("encoder", 1);
  return family;
}

}  // namespace viaduct::families
