#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "model/families/families.h"

namespace viaduct::families {
namespace {

double yarn_mscale(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

double yarn_attention_factor(HfConfig& scaling, const RotarySpec& rotary) {
  if (scaling.has("attention_factor")) return scaling.number("attention_factor");
  const double m = rotary.mscale, all = rotary.mscale_all_dim;
  return m != 0 && all != 0 ? yarn_mscale(rotary.factor, m) / yarn_mscale(rotary.factor, all)
                            : yarn_mscale(rotary.factor, 1);
}

}  // namespace

double latent_attention_scale(const ModelConfig& model) {
  const RotarySpec& rotary = model.rotary;
  const double scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  if (rotary.scaling != RopeScalingKind::yarn || rotary.mscale_all_dim == 0) return scale;
  const double m = yarn_mscale(rotary.factor, rotary.mscale_all_dim);
  return scale * m * m;
}

bool says_rope_base(HfConfig& config) {
  return config.has("rope_theta") ||
         (config.has("rope_parameters") && config.object("rope_parameters").has("rope_theta"));
}

void read_rope_scaling(HfConfig& scaling, int64_t max_positions, RotarySpec& rotary) {
  const std::string type =
      scaling.has("rope_type") ? scaling.text("rope_type") : scaling.text("type", "default");
  scaling.ignore({"type", "rope_type"});
  rotary.base = scaling.number("rope_theta", rotary.base);
  if (type == "default") {
    scaling.ignore({"factor"});
  } else if (type == "linear") {
    rotary.scaling = RopeScalingKind::linear;
    rotary.factor = scaling.number("factor");
  } else if (type == "llama3") {
    rotary.scaling = RopeScalingKind::llama3;
    rotary.factor = scaling.number("factor");
    rotary.low_frequency_factor = scaling.number("low_freq_factor");
    rotary.high_frequency_factor = scaling.number("high_freq_factor");
    rotary.original_max_positions = scaling.integer("original_max_position_embeddings");
  } else if (type == "yarn") {
    rotary.scaling = RopeScalingKind::yarn;
    const bool original = scaling.has("original_max_position_embeddings");
    rotary.original_max_positions =
        scaling.integer("original_max_position_embeddings", max_positions);
    rotary.factor =
        scaling.number("factor", original ? static_cast<double>(max_positions) /
                                                static_cast<double>(rotary.original_max_positions)
                                          : 1.0);
    rotary.beta_fast = scaling.number("beta_fast", 32);
    rotary.beta_slow = scaling.number("beta_slow", 1);
    rotary.truncate = scaling.boolean("truncate", true);
    rotary.mscale = scaling.number("mscale", 0);
    rotary.mscale_all_dim = scaling.number("mscale_all_dim", 0);
    rotary.attention_factor = yarn_attention_factor(scaling, rotary);
  } else {
    fail<ConfigError>(
        "{}: rope_type {} is not supported (supported: default, linear, llama3, yarn)",
        scaling.where(), type);
  }
  (void)scaling.finish(UnknownFields::refused);
}

nlohmann::ordered_json write_rope_scaling(const RotarySpec& rotary) {
  switch (rotary.scaling) {
    case RopeScalingKind::none:
      return nullptr;
    case RopeScalingKind::linear:
      return {{"rope_type", "linear"}, {"factor", rotary.factor}};
    case RopeScalingKind::llama3:
      return {{"rope_type", "llama3"},
              {"factor", rotary.factor},
              {"low_freq_factor", rotary.low_frequency_factor},
              {"high_freq_factor", rotary.high_frequency_factor},
              {"original_max_position_embeddings", rotary.original_max_positions}};
    case RopeScalingKind::yarn: {
      nlohmann::ordered_json json{
          {"rope_type", "yarn"},
          {"factor", rotary.factor},
          {"original_max_position_embeddings", rotary.original_max_positions},
          {"beta_fast", rotary.beta_fast},
          {"beta_slow", rotary.beta_slow},
          {"truncate", rotary.truncate},
          {"attention_factor", rotary.attention_factor}};
      if (rotary.mscale != 0) json["mscale"] = rotary.mscale;
      if (rotary.mscale_all_dim != 0) json["mscale_all_dim"] = rotary.mscale_all_dim;
      return json;
    }
  }
  return nullptr;
}

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

namespace {

/// Negative numbers count from the end of the vocabulary, as in torch.nn.Embedding.
int64_t padding_token(HfConfig& config, int64_t fallback, int64_t vocabulary) {
  if (!config.has("pad_token_id")) return config.mentions("pad_token_id") ? -1 : fallback;
  const int64_t token = config.integer("pad_token_id");
  return token < 0 ? std::max<int64_t>(token + vocabulary, -1) : token;
}

}  // namespace

ModelConfig read_llama_like(HfConfig& config, int64_t default_head_dim, int64_t default_padding) {
  ModelConfig model;
  model.layers = config.integer("num_hidden_layers");
  model.hidden = config.integer("hidden_size");
  model.feed_forward = config.integer("intermediate_size");
  model.heads = config.integer("num_attention_heads");
  model.kv_heads = config.integer("num_key_value_heads", model.heads);
  VIADUCT_CHECK(ConfigError, model.heads >= 1 && model.layers >= 1 && model.layers < (1 << 20),
                "{}: num_attention_heads {} and num_hidden_layers {}: expected at least 1",
                config.where(), model.heads, model.layers);
  model.head_dim = config.integer(
      "head_dim", default_head_dim > 0 ? default_head_dim : model.hidden / model.heads);
  model.vocabulary = config.integer("vocab_size");
  model.padding_token = padding_token(config, default_padding, model.vocabulary);
  model.max_positions = config.integer("max_position_embeddings");
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied_embeddings = config.boolean("tie_word_embeddings", false);
  model.attention_dropout = config.number("attention_dropout", 0);
  model.attention_scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  model.rotary.base = config.number("rope_theta", 10000);
  model.rotary.width = model.head_dim;
  model.rotary.interleaved = config.boolean("rotary_interleaved", false);
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(field)) continue;
    HfConfig scaling = config.object(field);
    read_rope_scaling(scaling, model.max_positions, model.rotary);
  }
  return model;
}

nlohmann::ordered_json write_llama_like(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.norm == NormKind::rms_norm, "normalization", "RMSNorm", "LayerNorm");
  choices.expect(model.gated, "gated_linear_unit", "true", "false");
  choices.expect(model.positions == PositionKind::rotary, "position_embedding_type", "rope",
                 "learned_absolute");
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["num_hidden_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["intermediate_size"] = model.feed_forward;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["max_position_embeddings"] = model.max_positions;
  json["rms_norm_eps"] = model.norm_eps;
  json["attention_dropout"] = model.attention_dropout;
  json["rope_theta"] = model.rotary.base;
  json["rope_scaling"] = write_rope_scaling(model.rotary);
  json["hidden_act"] = activation_to_hf(model.activation);
  // Not supported by Hugging Face: its code always rotates halves.
  if (model.rotary.interleaved) json["rotary_interleaved"] = true;
  return json;
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

std::vector<int64_t> windows_by_layer(HfConfig& config, int64_t layers, int64_t window,
                                      bool (*slides)(int64_t, int64_t), int64_t from) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  const auto types = config.texts("layer_types");
  VIADUCT_CHECK(ConfigError, types.empty() || static_cast<int64_t>(types.size()) == layers,
                "{}: layer_types has {} for {}", config.where(),
                counted(static_cast<int64_t>(types.size()), "entry", "entries"),
                counted(layers, "layer"));
  for (int64_t i = 0; i < layers; ++i) {
    bool sliding = slides(i, from);
    if (!types.empty()) {
      const std::string& type = types[static_cast<size_t>(i)];
      VIADUCT_CHECK(
          ConfigError, type == "sliding_attention" || type == "full_attention",
          "{}: layer_types: {} is not supported (supported: full_attention, sliding_attention)",
          config.where(), type);
      sliding = type == "sliding_attention";
    }
    VIADUCT_CHECK(ConfigError, !sliding || window > 0,
                  "{}: layer {} slides, but sliding_window is {}", config.where(), i, window);
    if (sliding) windows[static_cast<size_t>(i)] = window;
  }
  return windows;
}

}  // namespace viaduct::families
