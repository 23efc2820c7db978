// What the families of DeepSeek with latent attention share.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

// Hugging Face's code has this epsilon in the norms of the compressed vectors, whatever
// rms_norm_eps says of the others (Moonlight's 1e-5).
constexpr double kNormEpsilon = 1e-6;

}  // namespace

ModelConfig read_deepseek(HfConfig& config, const DeepSeekDefaults& defaults) {
  // In Hugging Face's files head_dim, where it is present, is that of the rotary part.
  config.ignore({"head_dim", "qk_head_dim"});
  ModelConfig model = read_llama_like(config);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.norm_eps = config.number("rms_norm_eps", defaults.norm_eps);
  // Some files have the number as FP32 holds it.
  if (static_cast<float>(model.norm_eps) == static_cast<float>(kNormEpsilon))
    model.norm_eps = kNormEpsilon;
  VIADUCT_CHECK(ConfigError, model.kv_heads == model.heads,
                "{}: num_key_value_heads {} is not supported (supported: num_attention_heads, {})",
                config.where(), model.kv_heads, model.heads);
  LatentSizes& latent = model.latent;
  latent.q_rank = config.mentions("q_lora_rank") && !config.has("q_lora_rank")
                      ? 0
                      : config.integer("q_lora_rank", defaults.q_rank);
  latent.kv_rank = config.integer("kv_lora_rank", 512);
  VIADUCT_CHECK(ConfigError, latent.kv_rank > 0, "{}: kv_lora_rank {}: expected at least 1",
                config.where(), latent.kv_rank);
  latent.plain_dim = config.integer("qk_nope_head_dim", defaults.plain_dim);
  latent.rotary_dim = config.integer("qk_rope_head_dim", 64);
  latent.value_dim = config.integer("v_head_dim", defaults.value_dim);
  if (model.norm_eps != kNormEpsilon) latent.norm_eps = kNormEpsilon;
  model.qk_norm = true;
  model.head_dim = latent.plain_dim + latent.rotary_dim;
  model.rotary.width = latent.rotary_dim;
  model.rotary.interleaved = config.boolean("rope_interleave", true);
  model.attention_scale = latent_attention_scale(model);
  read_deepseek_experts(config, defaults, model);
  return model;
}

nlohmann::ordered_json write_deepseek(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(model.latent.any(), "multi_latent_attention", "true", "false");
  choices.expect(!model.projection_bias, "add_attention_output_bias", "false", "true");
  expect_deepseek_experts(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json.erase("rotary_interleaved");  // rope_interleave says it here
  json["head_dim"] = model.latent.rotary_dim;
  json["q_lora_rank"] = nullptr;
  if (model.latent.q_rank > 0) json["q_lora_rank"] = model.latent.q_rank;
  json["kv_lora_rank"] = model.latent.kv_rank;
  json["qk_nope_head_dim"] = model.latent.plain_dim;
  json["qk_rope_head_dim"] = model.latent.rotary_dim;
  json["v_head_dim"] = model.latent.value_dim;
  json["attention_bias"] = false;
  write_deepseek_experts(model, json);
  return json;
}

void resolve_deepseek(ModelFields& fields) {
  fields.latent.multi_latent_attention.resolve(true);
  fields.layernorm_epsilon.resolve(kNormEpsilon);
  fields.latent.latent_layernorm_epsilon.resolve(kNormEpsilon);
  fields.rotary_interleaved.resolve(true);
}

TensorNames deepseek_names() {
  TensorNames names = deepseek_expert_names();
  names.k = names.v = names.q_norm = names.k_norm = "";
  names.q_down = "model.layers.{}.self_attn.q_a_proj";
  names.q_down_norm = "model.layers.{}.self_attn.q_a_layernorm";
  names.q_up = "model.layers.{}.self_attn.q_b_proj";
  names.kv_down = "model.layers.{}.self_attn.kv_a_proj_with_mqa";
  names.kv_down_norm = "model.layers.{}.self_attn.kv_a_layernorm";
  names.kv_up = "model.layers.{}.self_attn.kv_b_proj";
  return names;
}

}  // namespace viaduct::families
