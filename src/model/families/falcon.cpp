// Falcon (Almazrouei et al. 2023): both branches of a block begin at its input, after one norm or a
// norm for each; queries, keys and values in one tensor, the queries of a key-value head beside it.
// The forms of its config.json:
//
//   new_decoder_architecture   num_kv_heads heads of keys; norms of num_ln_in_parallel_attn (2)
//   else, multi_query          one head of keys; parallel_attn says whether the block is parallel
//   else                       as many heads of keys as of queries
//   alibi                      linear biases in place of rotary positions, multiplied by the factor
//                              of scores (falcon-rw). Hugging Face's code rounds slopes, and slopes
//                              times positions, to BF16; here neither is rounded.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

void read_form(HfConfig& config, ModelConfig& model) {
  const bool newer = config.boolean("new_decoder_architecture", false);
  const bool parallel = config.boolean("parallel_attn", true);
  const bool one_head = config.boolean("multi_query", true);
  const int64_t key_heads = config.integer("num_kv_heads", model.heads);
  const int64_t norms = config.integer("num_ln_in_parallel_attn", newer ? 2 : 1);
  VIADUCT_CHECK(ConfigError, parallel || !newer,
                "{}: parallel_attn is false with new_decoder_architecture, whose blocks are all "
                "parallel",
                config.where());
  VIADUCT_CHECK(ConfigError, norms == 1 || (norms == 2 && newer),
                "{}: num_ln_in_parallel_attn is {}, expected {}", config.where(), norms,
                newer ? "1 or 2" : "1 without new_decoder_architecture");
  model.kv_heads = newer ? key_heads : one_head ? 1 : model.heads;
  model.parallel_block = parallel;
  model.shared_norm = parallel && norms == 1;
}

ModelConfig read_falcon(HfConfig& config) {
  ModelConfig model;
  model.layers = config.integer("num_hidden_layers", 32);
  model.hidden = config.integer("hidden_size", 4544);
  model.heads = config.integer("num_attention_heads", 71);
  fill_with_heads(config, "num_attention_heads", "hidden_size", model);
  read_form(config, model);
  model.feed_forward = config.integer("ffn_hidden_size", 4 * model.hidden);
  model.vocabulary = config.integer("vocab_size", 65024);
  model.max_positions = config.integer("max_position_embeddings", 2048);
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.activation = activation_from_hf(config, "activation", "gelu");
  model.gated = false;
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias =
      config.boolean("bias", false);
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  // Its code has one mask for the sum of both branches, and none on the weights of attention.
  for (const char* field : {"hidden_dropout", "attention_dropout"}) {
    VIADUCT_CHECK(ConfigError, config.number(field, 0) == 0,
                  "{}: {} is {}, expected 0: other dropout than this family's would be applied",
                  config.where(), field, config.number(field, 0));
  }
  expect_only(config, "apply_residual_connection_post_layernorm",
              config.boolean("apply_residual_connection_post_layernorm", false), false);
  if (config.boolean("alibi", false)) {
    model.positions = PositionKind::linear_bias;
    model.linear_bias_scaled = true;
    config.ignore({"rope_parameters", "rope_scaling", "rope_theta"});  // no head rotates
  } else {
    read_rotary(config, {}, model);
  }
  return model;
}

nlohmann::ordered_json write_falcon(const ModelConfig& model) {
  const bool one_head = model.kv_heads == 1, all_heads = model.kv_heads == model.heads;
  const bool newer = model.parallel_block && !(model.shared_norm && one_head);
  FamilyChoices choices(model.family);
  const bool biases = model.positions == PositionKind::linear_bias;
  expect_form(model,
              {.norm = NormKind::layer_norm,
               .gated = false,
               .positions = biases ? PositionKind::linear_bias : PositionKind::rotary},
              choices);
  choices.expect(!biases || model.linear_bias_scaled, "alibi_scaled", "true", "false");
  choices.expect(newer || one_head || all_heads, "num_query_groups",
                 "1 or num_attention_heads without parallel_block", model.kv_heads);
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json;
  json["num_hidden_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["num_attention_heads"] = model.heads;
  json["num_kv_heads"] = newer ? model.kv_heads : model.heads;
  json["new_decoder_architecture"] = newer;
  json["multi_query"] = one_head;
  json["parallel_attn"] = model.parallel_block;
  if (newer) json["num_ln_in_parallel_attn"] = model.shared_norm ? 1 : 2;
  json["ffn_hidden_size"] = model.feed_forward;
  json["max_position_embeddings"] = model.max_positions;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["activation"] = activation_to_hf(model.activation);
  json["bias"] = model.qkv_bias;
  json["alibi"] = biases;
  if (biases) return json;
  json["rope_theta"] = model.rotary.base;
  json["rope_scaling"] = write_rope_scaling(model.rotary);
  if (model.rotary.interleaved) json["rotary_interleaved"] = true;  // Viaduct's own
  return json;
}

void resolve_falcon(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.activation_func.resolve(FeedForwardActivation::gelu);
  fields.gated_linear_unit.resolve(false);
  fields.num_query_groups.resolve(1);
  fields.parallel_block.resolve(true);
  fields.parallel_block_shared_norm.resolve(fields.parallel_block.value());
  fields.share_embeddings_and_output_weights.resolve(true);
  fields.alibi_scaled.resolve(true);
}

TensorNames names() {
  TensorNames names;
  names.token_embedding = "transformer.word_embeddings";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.input_norm = "transformer.h.{}.input_layernorm";
  names.parallel_input_norm = "transformer.h.{}.ln_attn";
  names.parallel_mlp_norm = "transformer.h.{}.ln_mlp";
  names.mlp_norm = "transformer.h.{}.post_attention_layernorm";
  names.qkv = "transformer.h.{}.self_attention.query_key_value";
  names.qkv_by_group = true;
  names.projection = "transformer.h.{}.self_attention.dense";
  names.up = "transformer.h.{}.mlp.dense_h_to_4h";
  names.down = "transformer.h.{}.mlp.dense_4h_to_h";
  // Hugging Face's Falcon has none of these.
  names.q_norm = "transformer.h.{}.self_attention.q_norm";
  names.k_norm = "transformer.h.{}.self_attention.k_norm";
  names.sinks = "transformer.h.{}.self_attention.sinks";
  names.attention_output_norm = "transformer.h.{}.attention_output_norm";
  names.mlp_output_norm = "transformer.h.{}.mlp_output_norm";
  names.optional_prefix = "transformer.";
  names.ignored_suffixes = {".self_attention.rotary_emb.inv_freq"};
  return names;
}

}  // namespace

ModelFamily falcon() {
  return {"falcon", "FalconForCausalLM", read_falcon, write_falcon, names(), resolve_falcon};
}

}  // namespace viaduct::families
