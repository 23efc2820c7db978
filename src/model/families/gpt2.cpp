// GPT-2 (Radford et al. 2019): learned positions, layer norm, GELU, biases everywhere; projections
// stored [in, out].

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {

ModelConfig read_gpt2(HfConfig& config) {
  ModelConfig model;
  model.layers = config.integer("n_layer", 12);
  model.hidden = config.integer("n_embd", 768);
  model.heads = config.integer("n_head", 12);
  fill_with_heads(config, "n_head", "n_embd", model);
  model.feed_forward = config.integer("n_inner", 4 * model.hidden);
  model.vocabulary = config.integer("vocab_size", 50257);
  model.max_positions = config.integer("n_positions", 1024);
  config.ignore({"n_ctx", "reorder_and_upcast_attn"});  // the second affects only precision
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.activation = activation_from_hf(config, "activation_function", "gelu_new");
  model.gated = false;
  model.positions = PositionKind::learned;
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias = true;
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  model.embedding_dropout = config.number("embd_pdrop", 0.1);
  model.residual_dropout = config.number("resid_pdrop", 0.1);
  model.attention_dropout = config.number("attn_pdrop", 0.1);
  if (!config.boolean("scale_attn_weights", true)) model.attention_scale = 1;
  for (const char* field : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    expect_only(config, field, config.boolean(field, false), false);
  config.ignore({"summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj"});
  return model;
}

nlohmann::ordered_json write_gpt2(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_form(model,
              {.norm = NormKind::layer_norm, .gated = false, .positions = PositionKind::learned},
              choices);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["n_layer"] = model.layers;
  json["n_embd"] = model.hidden;
  json["n_head"] = model.heads;
  json["n_inner"] = model.feed_forward;
  json["n_positions"] = model.max_positions;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["activation_function"] = model.activation == ActivationKind::gelu_tanh
                                    ? "gelu_new"
                                    : activation_to_hf(model.activation);
  json["embd_pdrop"] = model.embedding_dropout;
  json["resid_pdrop"] = model.residual_dropout;
  json["attn_pdrop"] = model.attention_dropout;
  json["scale_attn_weights"] = model.attention_scale != 1 || model.head_dim == 1;
  return json;
}

void resolve_gpt2(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.layernorm_epsilon.resolve(1e-5);
  fields.activation_func.resolve(FeedForwardActivation::gelu_tanh);
  fields.gated_linear_unit.resolve(false);
  fields.add_bias_linear.resolve(true);
  fields.position_embedding_type.resolve(PositionKind::learned);
  fields.share_embeddings_and_output_weights.resolve(true);
}

TensorNames gpt2_names() {
  TensorNames names;
  names.token_embedding = "transformer.wte";
  names.position_embedding = "transformer.wpe";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.input_norm = "transformer.h.{}.ln_1";
  names.qkv = "transformer.h.{}.attn.c_attn";
  names.projection = "transformer.h.{}.attn.c_proj";
  // Hugging Face's GPT-2 has none of these.
  names.q_norm = "transformer.h.{}.attn.q_norm";
  names.k_norm = "transformer.h.{}.attn.k_norm";
  names.sinks = "transformer.h.{}.attn.sinks";
  names.attention_output_norm = "transformer.h.{}.post_attn_norm";
  names.mlp_output_norm = "transformer.h.{}.post_mlp_norm";
  names.mlp_norm = "transformer.h.{}.ln_2";
  names.up = "transformer.h.{}.mlp.c_fc";
  names.down = "transformer.h.{}.mlp.c_proj";
  names.transposed = true;
  names.optional_prefix = "transformer.";
  names.ignored_suffixes = {".attn.bias", ".attn.masked_bias"};
  return names;
}

namespace {

nlohmann::ordered_json write_with_own_keys(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_own_keys(model, choices);
  choices.throw_if_any();
  return write_gpt2(model);
}

}  // namespace

ModelFamily gpt2() {
  return {"gpt2", "GPT2LMHeadModel", read_gpt2, write_with_own_keys, gpt2_names(), resolve_gpt2};
}

}  // namespace viaduct::families
