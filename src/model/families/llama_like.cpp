#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"

namespace viaduct::families {
namespace {

const std::map<std::string, ActivationKind, std::less<>>& activations() {
  static const std::map<std::string, ActivationKind, std::less<>> names{
      {"gelu", ActivationKind::gelu},
      {"gelu_new", ActivationKind::gelu_tanh},
      {"gelu_pytorch_tanh", ActivationKind::gelu_tanh},
      {"gelu_fast", ActivationKind::gelu_tanh},
      {"quick_gelu", ActivationKind::quick_gelu},
      {"silu", ActivationKind::silu},
      {"swish", ActivationKind::silu},
      {"relu", ActivationKind::relu},
      {"relu2", ActivationKind::squared_relu}};
  return names;
}

}  // namespace

ActivationKind activation_from_hf(HfConfig& config, std::string_view field,
                                  std::string_view fallback) {
  const std::string name = config.text(field, std::string(fallback));
  const auto found = activations().find(name);
  VIADUCT_CHECK(ConfigError, found != activations().end(),
                "{}: {} {} is not supported (supported: gelu, gelu_new, gelu_pytorch_tanh, "
                "gelu_fast, quick_gelu, silu, swish, relu, relu2)",
                config.where(), field, name);
  return found->second;
}

std::string activation_to_hf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return "gelu";
    case ActivationKind::gelu_tanh:
      return "gelu_pytorch_tanh";
    case ActivationKind::quick_gelu:
      return "quick_gelu";
    case ActivationKind::silu:
      return "silu";
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::squared_relu:
      return "relu2";
  }
  return "";
}

int64_t read_padding_token(HfConfig& config, int64_t fallback, int64_t vocabulary) {
  if (!config.has("pad_token_id")) return config.mentions("pad_token_id") ? -1 : fallback;
  const int64_t token = config.integer("pad_token_id");
  return token < 0 ? std::max<int64_t>(token + vocabulary, -1) : token;
}

ModelConfig read_llama_like(HfConfig& config, int64_t default_head_dim, int64_t default_padding,
                            const RotaryDefaults& rotary,
                            std::optional<int64_t> default_feed_forward) {
  ModelConfig model;
  model.layers = config.integer("num_hidden_layers");
  model.hidden = config.integer("hidden_size");
  model.feed_forward = config.integer("intermediate_size", default_feed_forward);
  model.heads = config.integer("num_attention_heads");
  model.kv_heads = config.integer("num_key_value_heads", model.heads);
  VIADUCT_CHECK(ConfigError, model.heads >= 1 && model.layers >= 1 && model.layers < (1 << 20),
                "{}: num_attention_heads {} and num_hidden_layers {}: expected at least 1",
                config.where(), model.heads, model.layers);
  model.head_dim = config.integer(
      "head_dim", default_head_dim > 0 ? default_head_dim : model.hidden / model.heads);
  model.vocabulary = config.integer("vocab_size");
  model.padding_token = read_padding_token(config, default_padding, model.vocabulary);
  model.max_positions = config.integer("max_position_embeddings");
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied_embeddings = config.boolean("tie_word_embeddings", false);
  model.attention_dropout = config.number("attention_dropout", 0);
  model.attention_scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  read_rotary(config, rotary, model);
  return model;
}

nlohmann::ordered_json write_llama_like(const ModelConfig& model, const LlamaForm& form) {
  FamilyChoices choices(model.family);
  expect_form(model, {.norm = form.norm, .gated = form.gated}, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["num_hidden_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["intermediate_size"] = model.feed_forward;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["max_position_embeddings"] = model.max_positions;
  if (form.norm == NormKind::rms_norm) json["rms_norm_eps"] = model.norm_eps;
  json["attention_dropout"] = model.attention_dropout;
  json["rope_theta"] = model.rotary.base;
  json["rope_scaling"] = write_rope_scaling(model.rotary);
  if (!form.alpha && json["rope_scaling"].is_object()) json["rope_scaling"].erase("alpha");
  json["hidden_act"] = activation_to_hf(model.activation);
  // Not supported by Hugging Face: its code always rotates one kind of pairs.
  if (model.rotary.interleaved != form.interleaved)
    json["rotary_interleaved"] = model.rotary.interleaved;
  return json;
}

void expect_form(const ModelConfig& model, const BlockForm& form, FamilyChoices& choices) {
  const auto norm = [](NormKind kind) {
    return kind == NormKind::rms_norm ? "RMSNorm" : "LayerNorm";
  };
  const auto positions = [](PositionKind kind) {
    return kind == PositionKind::rotary    ? "rope"
           : kind == PositionKind::learned ? "learned_absolute"
                                           : "alibi";
  };
  choices.expect(model.norm == form.norm, "normalization", norm(form.norm), norm(model.norm));
  choices.expect(model.gated == form.gated, "gated_linear_unit", form.gated ? "true" : "false",
                 model.gated);
  choices.expect(model.positions == form.positions, "position_embedding_type",
                 positions(form.positions), positions(model.positions));
}

void fill_with_heads(const HfConfig& config, std::string_view heads, std::string_view hidden,
                     ModelConfig& model) {
  VIADUCT_CHECK(ConfigError, model.heads >= 1 && model.hidden % model.heads == 0,
                "{}: {} {} does not divide {} {}", config.where(), heads, model.heads, hidden,
                model.hidden);
  model.kv_heads = model.heads;
  model.head_dim = model.hidden / model.heads;
  model.attention_scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
}

void check_heads_fill(HfConfig& config, const ModelConfig& model) {
  VIADUCT_CHECK(ConfigError, model.head_dim * model.heads == model.hidden,
                "{}: head_dim is {}, expected hidden_size {} / num_attention_heads {}, which "
                "Hugging Face's code of the family takes",
                config.where(), model.head_dim, model.hidden, model.heads);
}

void expect_heads_fill(const ModelConfig& model, FamilyChoices& choices) {
  choices.expect(model.head_dim * model.heads == model.hidden, "kv_channels",
                 "hidden_size / num_attention_heads", model.head_dim);
}

void expect_own_keys(const ModelConfig& model, FamilyChoices& choices) {
  choices.expect(model.kv_heads == model.heads, "num_query_groups",
                 fmt::format("num_attention_heads = {}", model.heads), model.kv_heads);
}

void read_llama_biases(HfConfig& config, ModelConfig& model) {
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.up_bias = model.down_bias = config.boolean("mlp_bias", false);
}

void write_llama_biases(const ModelConfig& model, nlohmann::ordered_json& json) {
  json["attention_bias"] = model.qkv_bias;
  json["mlp_bias"] = model.up_bias;
}

TensorNames llama_names() {
  TensorNames names;
  names.token_embedding = "model.embed_tokens";
  names.final_norm = "model.norm";
  names.head = "lm_head";
  names.input_norm = "model.layers.{}.input_layernorm";
  names.q = "model.layers.{}.self_attn.q_proj";
  names.k = "model.layers.{}.self_attn.k_proj";
  names.v = "model.layers.{}.self_attn.v_proj";
  names.q_norm = "model.layers.{}.self_attn.q_norm";
  names.k_norm = "model.layers.{}.self_attn.k_norm";
  names.projection = "model.layers.{}.self_attn.o_proj";
  names.mlp_norm = "model.layers.{}.post_attention_layernorm";
  // Not in Hugging Face's Llama: what a family's config.json cannot ask for has names all the same.
  names.sinks = "model.layers.{}.self_attn.sinks";
  names.attention_output_norm = "model.layers.{}.post_self_attn_layernorm";
  names.mlp_output_norm = "model.layers.{}.post_mlp_layernorm";
  names.gate = "model.layers.{}.mlp.gate_proj";
  names.up = "model.layers.{}.mlp.up_proj";
  names.down = "model.layers.{}.mlp.down_proj";
  names.alpha_p = "model.layers.{}.mlp.act_fn.alpha_p";
  names.alpha_n = "model.layers.{}.mlp.act_fn.alpha_n";
  // As in DeepSeek-V3's checkpoints.
  names.mtp_hidden_norm = "model.layers.{}.hnorm";
  names.mtp_embedding_norm = "model.layers.{}.enorm";
  names.mtp_projection = "model.layers.{}.eh_proj";
  names.mtp_head_norm = "model.layers.{}.shared_head.norm";
  names.mtp_token_embedding = "model.layers.{}.embed_tokens";
  names.mtp_head = "model.layers.{}.shared_head.head";
  names.ignored_suffixes = {".rotary_emb.inv_freq"};
  names.optional_prefix = "model.";
  return names;
}

}  // namespace viaduct::families
