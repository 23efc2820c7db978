// GPT-Neo (Black et al. 2021): GPT-2 with separate projections without biases, scores that are not
// scaled, and a window in every other layer.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr const char *kGlobal = "global", *kLocal = "local";

/// `attention_types`, or half of the class's 24 layers of each kind in turn.
std::vector<int64_t> read_windows(HfConfig& config, int64_t layers) {
  std::vector<std::string> kinds = config.repeated_texts("attention_types");
  if (kinds.empty())
    for (int64_t layer = 0; layer < 24; ++layer) kinds.push_back(layer % 2 == 0 ? kGlobal : kLocal);
  VIADUCT_CHECK(ConfigError, std::ssize(kinds) == layers,
                "{}: attention_types says {} layers, but num_layers is {}", config.where(),
                kinds.size(), layers);
  const std::vector<std::string> listed = config.texts("attention_layers");
  VIADUCT_CHECK(ConfigError, listed.empty() || listed == kinds,
                "{}: attention_layers differs from attention_types, which Hugging Face's code "
                "reads; expected the same",
                config.where());
  const int64_t window = config.integer("window_size", 256);
  std::vector<int64_t> windows;
  for (const std::string& kind : kinds) {
    VIADUCT_CHECK(ConfigError, kind == kGlobal || kind == kLocal,
                  "{}: attention_types: {} is not supported (supported: {}, {})", config.where(),
                  kind, kGlobal, kLocal);
    VIADUCT_CHECK(ConfigError, kind == kGlobal || window > 0,
                  "{}: window_size is {}, expected at least 1", config.where(), window);
    windows.push_back(kind == kLocal ? window : 0);
  }
  return windows;
}

void write_windows(const ModelConfig& model, nlohmann::ordered_json& json) {
  auto types = nlohmann::ordered_json::array();
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const int64_t window = model.window_of(layer);
    if (window > 0) json["window_size"] = window;
    const char* kind = window > 0 ? kLocal : kGlobal;
    if (layer > 0 && types.back()[0][0] == kind)
      types.back()[1] = types.back()[1].get<int64_t>() + 1;
    else
      types.push_back({nlohmann::ordered_json::array({kind}), 1});
  }
  json["attention_types"] = types;
}

ModelConfig read_gpt_neo(HfConfig& config) {
  ModelConfig model;
  model.layers = config.integer("num_layers", 24);
  model.hidden = config.integer("hidden_size", 2048);
  model.heads = config.integer("num_heads", 16);
  fill_with_heads(config, "num_heads", "hidden_size", model);
  model.attention_scale = 1;
  model.feed_forward = config.integer("intermediate_size", 4 * model.hidden);
  model.vocabulary = config.integer("vocab_size", 50257);
  model.max_positions = config.integer("max_position_embeddings", 2048);
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.activation = activation_from_hf(config, "activation_function", "gelu_new");
  model.gated = false;
  model.positions = PositionKind::learned;
  model.projection_bias = model.up_bias = model.down_bias = true;
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.embedding_dropout = config.number("embed_dropout", 0);
  model.residual_dropout = config.number("resid_dropout", 0);
  model.attention_dropout = config.number("attention_dropout", 0);
  model.windows = read_windows(config, model.layers);
  return model;
}

nlohmann::ordered_json write_gpt_neo(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_form(model,
              {.norm = NormKind::layer_norm, .gated = false, .positions = PositionKind::learned},
              choices);
  expect_own_keys(model, choices);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["num_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["num_heads"] = model.heads;
  json["intermediate_size"] = model.feed_forward;
  json["max_position_embeddings"] = model.max_positions;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["activation_function"] = model.activation == ActivationKind::gelu_tanh
                                    ? "gelu_new"
                                    : activation_to_hf(model.activation);
  json["embed_dropout"] = model.embedding_dropout;
  json["resid_dropout"] = model.residual_dropout;
  json["attention_dropout"] = model.attention_dropout;
  write_windows(model, json);
  return json;
}

void resolve_gpt_neo(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.gated_linear_unit.resolve(false);
  if (fields.add_bias_linear.is_auto()) {
    fields.add_attention_output_bias.resolve(true);
    fields.add_mlp_bias.resolve(true);
  }
  fields.softmax_scale.resolve(1.0);
  fields.position_embedding_type.resolve(PositionKind::learned);
  fields.share_embeddings_and_output_weights.resolve(true);
}

TensorNames names() {
  TensorNames names = gpt2_names();
  names.transposed = false;
  names.qkv = "";
  names.q = "transformer.h.{}.attn.attention.q_proj";
  names.k = "transformer.h.{}.attn.attention.k_proj";
  names.v = "transformer.h.{}.attn.attention.v_proj";
  names.projection = "transformer.h.{}.attn.attention.out_proj";
  names.ignored_suffixes = {".attn.attention.bias", ".attn.attention.masked_bias"};
  return names;
}

}  // namespace

ModelFamily gpt_neo() {
  return {"gpt_neo", "GPTNeoForCausalLM", read_gpt_neo, write_gpt_neo, names(), resolve_gpt_neo};
}

}  // namespace viaduct::families
