// Code World Model (Meta FAIR 2025, arXiv 2510.02387): Llama 3 with a sliding window in three of
// four layers.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kCwmBase = 1e6;
constexpr int64_t kCwmHeadDim = 128, kCwmWindow = 8192;

/// What Hugging Face's configuration class takes where a file says nothing of positions.
void default_cwm_positions(RotarySpec& rotary) {
  rotary.scaling = RopeScalingKind::llama3;
  rotary.factor = 16;
  rotary.low_frequency_factor = 1, rotary.high_frequency_factor = 4;
  rotary.original_max_positions = 8192;
}

ModelConfig read_cwm(HfConfig& config) {
  const bool positions = config.has("rope_scaling") || config.has("rope_parameters");
  ModelConfig model = read_llama_like(config, kCwmHeadDim, -1, {.base = kCwmBase});
  if (!positions) {
    VIADUCT_CHECK(ConfigError, model.rotary.base == kCwmBase,
                  "{}: rope_theta is {} without rope_parameters, where Hugging Face's code of the "
                  "family takes {}; expected rope_parameters with it",
                  config.where(), model.rotary.base, kCwmBase);
    default_cwm_positions(model.rotary);
  }
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.up_bias = model.down_bias = config.boolean("mlp_bias", false);
  model.windows = windows_by_layer(
      config, model.layers, config.integer_or_none("sliding_window", kCwmWindow),
      [](int64_t layer, int64_t) { return layer % 4 != 0; }, 0);
  return model;
}

nlohmann::ordered_json write_cwm(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  choices.expect(!model.qkv_bias && !model.projection_bias, "add_bias_linear",
                 "no biases in attention", "some");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  json["mlp_bias"] = model.up_bias;
  write_layer_types(model, json);
  // The class has llama3's scaling where this is absent.
  nlohmann::ordered_json positions = json["rope_scaling"];
  if (positions.is_null()) positions = {{"rope_type", "default"}};
  positions["rope_theta"] = model.rotary.base;
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["rope_parameters"] = positions;
  return json;
}

void resolve_cwm(ModelFields& fields) {
  fields.rotary_base.resolve(kCwmBase);
}

}  // namespace

ModelFamily cwm() {
  ModelFamily family{"cwm", "CwmForCausalLM", read_cwm, write_cwm, llama_names(), resolve_cwm};
  family.since_version5 = true;
  return family;
}

}  // namespace viaduct::families
