// Gemma 3 (2025), its text model: Gemma 2 with norms on q and k instead of soft-caps, and five
// layers with a sliding window, whose positions have a base of their own, before each layer
// without.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 1e6, kWindowBase = 10000;

ModelConfig read_gemma3_text(HfConfig& config) {
  ModelConfig model = read_llama_like(config, 256, 0, {.base = kBase, .window_base = kWindowBase});
  // transformers 4 has a field of its own for the base of layers with a window.
  const double window_base = config.number("rope_local_base_freq", kWindowBase);
  if (model.window_rotary_base == 0) model.window_rotary_base = window_base;
  read_gemma_attention(config, {}, model);
  VIADUCT_CHECK(ConfigError, model.attention_softcap == 0,
                "{}: attn_logit_softcapping is {}, which is not supported (supported: null); "
                "Hugging Face's code does not apply it in this family",
                config.where(), model.attention_softcap);
  model.qk_norm = true;
  const int64_t pattern = read_interval(config, "sliding_window_pattern",
                                        read_interval(config, "_sliding_window_pattern", 6));
  const int64_t window = config.integer_or_none("sliding_window", 4096);
  model.windows = windows_by_layer(
      config, model.layers, window,
      [](int64_t layer, int64_t every) { return (layer + 1) % every != 0; }, pattern);
  return model;
}

nlohmann::ordered_json write_gemma3_text(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_gemma_attention(model, json);
  json["attn_logit_softcapping"] = nullptr;  // a soft-cap is a field of ours
  json["rope_local_base_freq"] =
      model.window_rotary_base > 0 ? model.window_rotary_base : model.rotary.base;
  write_layer_types(model, json);
  return json;
}

void resolve_gemma3_text(ModelFields& fields) {
  resolve_gemma(fields);
  fields.post_sublayer_norm.resolve(true);
  fields.qk_layernorm.resolve(true);
  fields.rotary_base.resolve(kBase);
  fields.window_rotary_base.resolve(kWindowBase);
}

}  // namespace

ModelFamily gemma3_text() {
  return {"gemma3_text",     "Gemma3ForCausalLM", read_gemma3_text,
          write_gemma3_text, gemma_norm_names(),  resolve_gemma3_text};
}

}  // namespace viaduct::families
