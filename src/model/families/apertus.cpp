// Apertus (Swiss AI, 2025): norms on the heads of query and key, and a feed-forward of xIELU
// without a gate.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"
#include "ops/xielu.h"

namespace viaduct::families {
namespace {

constexpr double kApertusBase = 12e6;
constexpr int64_t kApertusPadding = 3;
constexpr const char* kXielu = "xielu";

/// What Hugging Face's configuration class takes where a file says nothing of positions.
void default_apertus_positions(RotarySpec& rotary) {
  rotary.scaling = RopeScalingKind::llama3;
  rotary.factor = 8;
  rotary.low_frequency_factor = 1, rotary.high_frequency_factor = 4;
  rotary.original_max_positions = 8192;
}

/// Where neither field has an object, transformers 5 takes the scaling and the base of its class
/// whatever else the file says; version 4 takes `rope_theta`, and no scaling from a null.
void refuse_what_versions_read_apart(HfConfig& config) {
  VIADUCT_CHECK(ConfigError, !config.mentions("rope_scaling"),
                "{}: rope_scaling is null without rope_parameters, in which versions of "
                "transformers read no scaling and llama3's; expected an object, such as "
                "{{\"rope_type\": \"default\"}}",
                config.where());
  const double base = config.number("rope_theta", kApertusBase);
  VIADUCT_CHECK(ConfigError, base == kApertusBase,
                "{}: rope_theta is {} without rope_scaling and rope_parameters, where versions of "
                "transformers take it and {}; expected rope_parameters with it",
                config.where(), base, kApertusBase);
}

ModelConfig read_apertus(HfConfig& config) {
  const bool positions = config.has("rope_scaling") || config.has("rope_parameters");
  if (!positions) refuse_what_versions_read_apart(config);
  ModelConfig model = read_llama_like(config, 0, kApertusPadding, {.base = kApertusBase});
  if (!positions) default_apertus_positions(model.rotary);
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.xielu = config.text("hidden_act", kXielu) == kXielu;
  if (!model.xielu) model.activation = activation_from_hf(config, "hidden_act", kXielu);
  model.gated = false;
  model.qk_norm = true;
  model.qkv_bias = model.projection_bias = config.boolean("attention_bias", false);
  // Of the publisher's code; Hugging Face's has always the one.
  expect_only(config, "qk_norm", config.boolean("qk_norm", true), true);
  expect_only(config, "post_norm", config.boolean("post_norm", false), false);
  return model;
}

nlohmann::ordered_json write_apertus(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, {.gated = false});
  // Where both fields are absent, Hugging Face's code takes llama3's scaling.
  if (model.rotary.scaling == RopeScalingKind::none) {
    json["rope_scaling"] = {{"rope_type", "default"}};
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", model.rotary.base}};
  }
  if (model.xielu) json["hidden_act"] = kXielu;
  json["attention_bias"] = model.qkv_bias;
  return json;
}

void resolve_apertus(ModelFields& fields) {
  fields.activation_func.resolve(FeedForwardActivation::xielu);
  fields.gated_linear_unit.resolve(false);
  fields.qk_layernorm.resolve(true);
  fields.rotary_base.resolve(kApertusBase);
}

TensorNames apertus_names() {
  TensorNames names = llama_names();
  names.input_norm = "model.layers.{}.attention_layernorm";
  names.mlp_norm = "model.layers.{}.feedforward_layernorm";
  names.constants = {{"model.layers.{}.mlp.act_fn.beta", kXieluBeta},
                     {"model.layers.{}.mlp.act_fn.eps", kXieluEpsilon}};
  names.ignored_suffixes.emplace_back(".mlp.act_fn.beta");
  names.ignored_suffixes.emplace_back(".mlp.act_fn.eps");
  return names;
}

}  // namespace

ModelFamily apertus() {
  return {"apertus",     "ApertusForCausalLM", read_apertus,
          write_apertus, apertus_names(),      resolve_apertus};
}

}  // namespace viaduct::families
