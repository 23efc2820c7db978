// Ministral 3 (2025): Mistral with YaRN, and queries that grow with their position.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kMinistralBase = 1e6;
constexpr int64_t kMinistralHeadDim = 128, kMinistralPadding = 11;

/// What Hugging Face's configuration class takes where a file says nothing of positions.
void default_positions(ModelConfig& model) {
  RotarySpec& rotary = model.rotary;
  rotary.base = kMinistralBase;
  rotary.scaling = RopeScalingKind::yarn;
  rotary.factor = 16;
  rotary.original_max_positions = 16384;
  rotary.mscale = rotary.mscale_all_dim = 1;
  model.temperature = {0.1, rotary.original_max_positions};
}

ModelConfig read_ministral3(HfConfig& config) {
  const bool positions = config.has("rope_parameters") || config.has("rope_scaling");
  ModelConfig model = read_llama_like(config, kMinistralHeadDim, kMinistralPadding,
                                      {.base = kMinistralBase, .temperature = true});
  if (!positions) default_positions(model);
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.windows.assign(static_cast<size_t>(model.layers), config.integer("sliding_window", 0));
  return model;
}

nlohmann::ordered_json write_ministral3(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  // There is no Ministral 3 in transformers 4, and 5 has its own scaling where this is absent.
  nlohmann::ordered_json positions = json["rope_scaling"];
  if (positions.is_null()) positions = {{"rope_type", "default"}};
  positions["rope_theta"] = model.rotary.base;
  positions["llama_4_scaling_beta"] = model.temperature.scale;
  if (!positions.contains("original_max_position_embeddings"))
    positions["original_max_position_embeddings"] =
        model.temperature.any() ? model.temperature.length : model.max_positions;
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["rope_parameters"] = positions;
  write_common_window(model, json);
  return json;
}

void resolve_ministral3(ModelFields& fields) {
  fields.rotary_base.resolve(kMinistralBase);
}

}  // namespace

ModelFamily ministral3() {
  ModelFamily family{"ministral3",     "Ministral3ForCausalLM", read_ministral3,
                     write_ministral3, llama_names(),           resolve_ministral3};
  family.since_version5 = true;
  return family;
}

}  // namespace viaduct::families
