// OLMo 3 (2025): OLMo 2 with a sliding window in three of four layers, whose positions are not
// stretched.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 500000;

ModelConfig read_olmo3(HfConfig& config) {
  ModelConfig model = read_olmo(config, {.base = kBase, .window_base = kBase});
  // transformers 4 has one base; layers with a window are not stretched there either.
  if (model.window_rotary_base == 0) model.window_rotary_base = model.rotary.base;
  model.windows = windows_by_layer(
      config, model.layers, config.integer("sliding_window", 4096),
      [](int64_t layer, int64_t) { return layer % 4 != 3; }, 0);
  return model;
}

nlohmann::ordered_json write_olmo3(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  write_layer_types(model, json);
  // transformers 5 gives rope_theta of a file without it to the layers without a window alone.
  nlohmann::ordered_json full = {{"rope_type", "default"}};
  if (model.rotary.scaling != RopeScalingKind::none) full = json["rope_scaling"];
  full["rope_theta"] = model.rotary.base;
  const double window_base =
      model.window_rotary_base > 0 ? model.window_rotary_base : model.rotary.base;
  json["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", window_base}}}};
  return json;
}

void resolve_olmo3(ModelFields& fields) {
  resolve_olmo(fields);
  fields.rotary_base.resolve(kBase);
  fields.window_rotary_base.resolve(fields.rotary_base.value());
}

}  // namespace

ModelFamily olmo3() {
  return {"olmo3", "Olmo3ForCausalLM", read_olmo3, write_olmo3, gemma_norm_names(), resolve_olmo3};
}

}  // namespace viaduct::families
