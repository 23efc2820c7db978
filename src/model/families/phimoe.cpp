// Phi 3.5 MoE (2024): a descendant of Mixtral with layer norms, biases of attention and of the
// head, LongRoPE, and SparseMixer's weights of experts (Liu et al. 2024, arXiv 2409.12136).
//
// Hugging Face's code samples experts while it trains, and multiplies tokens by noise
// (input_jitter_noise): here training computes what that code does in evaluation.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kPhimoeBase = 1e6, kPhimoeEpsilon = 0.01;
constexpr int64_t kPhimoeExperts = 16, kPhimoeChosen = 2;

/// Experts of full width in every layer, and how far from the best one they may be.
void read_mixer(HfConfig& config, ModelConfig& model) {
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "num_local_experts", kPhimoeExperts);
  // The family's code weights two experts whatever the file says.
  moe.routing.topk = config.integer("num_experts_per_tok", kPhimoeChosen);
  expect_only(config, "num_experts_per_tok", moe.routing.topk, kPhimoeChosen);
  const double epsilon = config.number("router_jitter_noise", kPhimoeEpsilon);
  VIADUCT_CHECK(ConfigError, epsilon > 0,
                "{}: router_jitter_noise {} is not supported (supported: numbers above 0)",
                config.where(), epsilon);
  moe.routing.margin = 2 * epsilon;
  moe.feed_forward = model.feed_forward;
  moe.layers.assign(static_cast<size_t>(model.layers), 1);
  moe.folder_coefficient = config.number("router_aux_loss_coef", 0);
  config.ignore({"input_jitter_noise", "output_router_logits"});
}

ModelConfig read_phimoe(HfConfig& config) {
  refuse_all_but_longrope(config, "phimoe");
  ModelConfig model = read_llama_like(
      config, 0, -1, {.base = kPhimoeBase, .original_length = true, .magnitudes = true});
  model.norm = NormKind::layer_norm;
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  model.head_bias = config.boolean("lm_head_bias", false);
  model.windows.assign(static_cast<size_t>(model.layers), config.integer("sliding_window", 0));
  read_mixer(config, model);
  return model;
}

nlohmann::ordered_json write_phimoe(const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  FamilyChoices choices("phimoe");
  choices.expect(model.qkv_bias == model.projection_bias, "add_qkv_bias",
                 "the value of add_attention_output_bias", model.qkv_bias);
  expect_experts_everywhere(model, choices);
  expect_local_experts(model, choices);
  choices.expect(moe.routing.margin > 0, "moe_router_sparsemixer_eps", "a number", "null");
  choices.expect(moe.routing.topk == kPhimoeChosen, "moe_router_topk", "2", moe.routing.topk);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model, {.norm = NormKind::layer_norm});
  json["rms_norm_eps"] = model.norm_eps;
  json["attention_bias"] = model.qkv_bias;
  json["lm_head_bias"] = model.head_bias;
  if (json["rope_scaling"].is_object()) {
    json["rope_scaling"].erase("attention_factor");
    for (const char* field : {"short_mscale", "long_mscale"})
      json["rope_scaling"][field] = model.rotary.attention_factor;
  }
  write_common_window(model, json);
  json["num_local_experts"] = moe.experts;
  json["num_experts_per_tok"] = moe.routing.topk;
  json["router_jitter_noise"] = moe.routing.margin / 2;
  write_router_training(moe, json);
  return json;
}

void resolve_phimoe(ModelFields& fields) {
  fields.normalization.resolve(NormKind::layer_norm);
  fields.rotary_base.resolve(kPhimoeBase);
  fields.moe.num_moe_experts.resolve(kPhimoeExperts);
  fields.moe.moe_router_sparsemixer_eps.resolve(kPhimoeEpsilon);
}

TensorNames phimoe_names() {
  TensorNames names = mixtral_names();
  names.peft_router = "model.layers.{}.mlp.router.weight";
  return names;
}

}  // namespace

ModelFamily phimoe() {
  return {"phimoe",       "PhimoeForCausalLM", read_phimoe,         write_phimoe,
          phimoe_names(), resolve_phimoe,      RotaryPairs::halves, "PhiMoEForCausalLM"};
}

}  // namespace viaduct::families
