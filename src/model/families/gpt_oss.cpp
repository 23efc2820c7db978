// GPT-OSS (OpenAI 2025, gpt-oss model card, arXiv 2508.10925): experts with biases and a clamped
// gate in every layer, a sink in each head's softmax, and a sliding window in every other layer.

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kRotaryBase = 150000;
constexpr double kClamp = 7;      // unless the file has another one
constexpr double kSlope = 1.702;  // of the sigmoid

/// Where config.json has no rope_scaling.
void default_positions(RotarySpec& rotary) {
  rotary.scaling = RopeScalingKind::yarn;
  rotary.factor = 32;
  rotary.original_max_positions = 4096;
  rotary.truncate = false;
  rotary.attention_factor = 0.1 * std::log(rotary.factor) + 1;
}

ModelConfig read_gpt_oss(HfConfig& config) {
  const bool scaling = config.mentions("rope_scaling") || config.mentions("rope_parameters");
  ModelConfig model = read_llama_like(config, 64, -1, {.base = kRotaryBase});
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  if (!scaling) default_positions(model.rotary);
  const std::string activation = config.text("hidden_act", "silu");
  VIADUCT_CHECK(ConfigError, activation == "silu",
                "{}: hidden_act {} is not supported (supported: silu, which stands for x · "
                "sigmoid(1.702 x) in these files)",
                config.where(), activation);
  const double limit = config.number("swiglu_limit", kClamp);
  VIADUCT_CHECK(ConfigError, limit > 0 && std::isfinite(limit),
                "{}: swiglu_limit {}, expected a number above 0 ({} in the published models)",
                config.where(), limit, kClamp);
  const double slope = config.number("swiglu_alpha", kSlope);
  VIADUCT_CHECK(ConfigError, slope == kSlope,
                "{}: swiglu_alpha {} is not supported (supported: {})", config.where(), slope,
                kSlope);
  VIADUCT_CHECK(ConfigError, config.boolean("attention_bias", true),
                "{}: attention_bias false is not supported (supported: true)", config.where());
  model.activation = ActivationKind::quick_gelu;
  model.activation_clamp = limit;
  if (limit != kClamp)
    model.notes.push_back(fmt::format(
        "{}: swiglu_limit is {}; transformers 4 computes with {} whatever the file says",
        config.where(), limit, kClamp));
  model.activation_offset = 1;
  model.attention_sinks = model.router_bias = true;
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias = true;
  model.windows = windows_by_layer(
      config, model.layers, config.integer("sliding_window", 128),
      [](int64_t layer, int64_t) { return layer % 2 == 0; }, 0);
  read_local_experts(config, {.experts = 128, .topk = 4}, model);
  // Second names of num_experts_per_tok and of rope_scaling's original length.
  config.ignore({"experts_per_token", "initial_context_length"});
  return model;
}

nlohmann::ordered_json write_gpt_oss(const ModelConfig& model) {
  FamilyChoices choices("gpt_oss");
  expect_experts_everywhere(model, choices);
  choices.expect(model.attention_sinks, "softmax_type", "learnable", "vanilla");
  choices.expect(model.router_bias, "moe_router_linear_bias", "true", "false");
  choices.expect(model.qkv_bias && model.projection_bias, "add_qkv_bias",
                 "true, add_attention_output_bias too", model.qkv_bias);
  choices.expect(model.up_bias, "add_mlp_bias", "true", "false");
  choices.expect(model.activation == ActivationKind::quick_gelu, "activation_func", "quick_gelu",
                 "another one");
  choices.expect(model.activation_clamp > 0, "activation_func_clamp_value", "a number", "null");
  choices.expect(model.activation_offset == 1, "glu_linear_offset", "1", model.activation_offset);
  expect_local_experts(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  // Where the field is null or absent, Hugging Face's code takes YaRN with a factor of 32.
  if (model.rotary.scaling == RopeScalingKind::none) {
    json["rope_scaling"] = {{"rope_type", "default"}};
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", model.rotary.base}};
  }
  json["hidden_act"] = "silu";
  json["swiglu_limit"] = model.activation_clamp;
  json["attention_bias"] = true;
  write_local_experts(model, json);
  write_layer_types(model, json);
  return json;
}

TensorNames names() {
  TensorNames names = llama_names();
  names.gate = names.up = names.down = "";
  names.router = "model.layers.{}.mlp.router";
  // One tensor for gate and up (parameter_maker.h: fuses_experts).
  names.expert_up = "model.layers.{}.mlp.experts.{}.gate_up_proj";
  names.expert_down = "model.layers.{}.mlp.experts.{}.down_proj";
  return names;
}

void resolve_gpt_oss(ModelFields& fields) {
  fields.softmax_type.resolve(SoftmaxType::learnable);
  fields.moe_router_linear_bias.resolve(true);
  fields.add_bias_linear.resolve(true);
  fields.activation_func.resolve(FeedForwardActivation::quick_gelu);
  fields.activation_func_clamp_value.resolve(kClamp);
  fields.glu_linear_offset.resolve(1.0);
  fields.rotary_base.resolve(kRotaryBase);
  fields.moe.num_moe_experts.resolve(128);
  fields.moe.moe_router_topk.resolve(4);
}

}  // namespace

ModelFamily gpt_oss() {
  return {"gpt_oss", "GptOssForCausalLM", read_gpt_oss, write_gpt_oss, names(), resolve_gpt_oss};
}

}  // namespace viaduct::families
