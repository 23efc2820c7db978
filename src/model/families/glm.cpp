// GLM 4 in its first form (2024): Llama with biases on q, k and v, rotary pairs of neighbours in
// half of each head, and gate and up in one tensor.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kEpsilon = 1.5625e-7, kRotatedPart = 0.5;
constexpr int64_t kHeadDim = 128, kPadding = 151329;

}  // namespace

ModelConfig read_glm(HfConfig& config) {
  ModelConfig model =
      read_llama_like(config, kHeadDim, kPadding, {.part = kRotatedPart, .interleaved = true});
  model.norm_eps = config.number("rms_norm_eps", kEpsilon);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("attention_bias", true);
  return model;
}

nlohmann::ordered_json write_glm(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, {.interleaved = true});
  write_rotated_part(model, json);
  json["attention_bias"] = model.qkv_bias;
  return json;
}

TensorNames glm_names() {
  TensorNames names = llama_names();
  names.gate_up = "model.layers.{}.mlp.gate_up_proj";
  return names;
}

void resolve_glm(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(kEpsilon);
  fields.add_qkv_bias.resolve(true);
  fields.rotary_percent.resolve(kRotatedPart);
  fields.rotary_interleaved.resolve(true);
}

ModelFamily glm() {
  return {"glm",       "GlmForCausalLM",       read_glm, write_glm, glm_names(),
          resolve_glm, RotaryPairs::neighbours};
}

}  // namespace viaduct::families
