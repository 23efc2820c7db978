// GPT-J (Wang, Komatsuzaki 2021): both branches of a block begin at its input, after one norm;
// rotary pairs of neighbours in a part of each head, biases in the feed-forward and on the logits.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr int64_t kRotatedDims = 64;

ModelConfig read_gptj(HfConfig& config) {
  ModelConfig model;
  model.layers = config.integer("n_layer", 28);
  model.hidden = config.integer("n_embd", 4096);
  model.heads = config.integer("n_head", 16);
  fill_with_heads(config, "n_head", "n_embd", model);
  model.feed_forward = config.integer("n_inner", 4 * model.hidden);
  model.vocabulary = config.integer("vocab_size", 50400);
  model.max_positions = config.integer("n_positions", 2048);
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.activation = activation_from_hf(config, "activation_function", "gelu_new");
  model.gated = false;
  model.parallel_block = model.shared_norm = true;
  model.up_bias = model.down_bias = model.head_bias = true;
  model.tied_embeddings = config.boolean("tie_word_embeddings", false);
  model.embedding_dropout = config.number("embd_pdrop", 0);
  model.residual_dropout = config.number("resid_pdrop", 0);
  model.attention_dropout = config.number("attn_pdrop", 0);
  // Names of what the family always has, in the files of its publisher.
  for (const char* field : {"rotary", "scale_attn_weights"})
    expect_only(config, field, config.boolean(field, true), true);
  VIADUCT_CHECK(ConfigError, config.has("rotary_dim") || !config.mentions("rotary_dim"),
                "{}: rotary_dim is null, expected the number of dims of a head that rotate",
                config.where());
  // Hugging Face's code of the family has one base, and no scalings.
  model.rotary.width = config.integer("rotary_dim", kRotatedDims);
  model.rotary.interleaved = config.boolean("rotary_interleaved", true);
  return model;
}

nlohmann::ordered_json write_gptj(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_form(model, {.norm = NormKind::layer_norm, .gated = false}, choices);
  expect_heads_fill(model, choices);
  expect_own_keys(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["n_layer"] = model.layers;
  json["n_embd"] = model.hidden;
  json["n_head"] = model.heads;
  json["n_inner"] = model.feed_forward;
  json["n_positions"] = model.max_positions;
  json["rotary_dim"] = model.rotary.width;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["activation_function"] = model.activation == ActivationKind::gelu_tanh
                                    ? "gelu_new"
                                    : activation_to_hf(model.activation);
  json["embd_pdrop"] = model.embedding_dropout;
  json["resid_pdrop"] = model.residual_dropout;
  json["attn_pdrop"] = model.attention_dropout;
  if (!model.rotary.interleaved) json["rotary_interleaved"] = false;  // Viaduct's own
  return json;
}

void resolve_gptj(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.gated_linear_unit.resolve(false);
  if (fields.add_bias_linear.is_auto()) fields.add_mlp_bias.resolve(true);
  fields.add_head_bias.resolve(true);
  fields.parallel_block.resolve(true);
  fields.parallel_block_shared_norm.resolve(fields.parallel_block.value());
  fields.rotary_percent.resolve(0.25);
  fields.rotary_interleaved.resolve(true);
}

TensorNames names() {
  TensorNames names;
  names.token_embedding = "transformer.wte";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.input_norm = "transformer.h.{}.ln_1";
  names.q = "transformer.h.{}.attn.q_proj";
  names.k = "transformer.h.{}.attn.k_proj";
  names.v = "transformer.h.{}.attn.v_proj";
  names.projection = "transformer.h.{}.attn.out_proj";
  names.up = "transformer.h.{}.mlp.fc_in";
  names.down = "transformer.h.{}.mlp.fc_out";
  // Hugging Face's GPT-J has none of these.
  names.q_norm = "transformer.h.{}.attn.q_norm";
  names.k_norm = "transformer.h.{}.attn.k_norm";
  names.sinks = "transformer.h.{}.attn.sinks";
  names.attention_output_norm = "transformer.h.{}.post_attn_norm";
  names.mlp_output_norm = "transformer.h.{}.post_mlp_norm";
  names.mlp_norm = "transformer.h.{}.ln_2";
  names.optional_prefix = "transformer.";
  names.ignored_suffixes = {".attn.bias", ".attn.masked_bias"};
  return names;
}

}  // namespace

ModelFamily gptj() {
  return {"gptj",       "GPTJForCausalLM",      read_gptj, write_gptj, names(),
          resolve_gptj, RotaryPairs::neighbours};
}

}  // namespace viaduct::families
