// Phi 3, 3.5 and 4 (2024): Llama whose projections of q, k and v, and of gate and up, are one
// tensor each; a part of each head may be without positions.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr int64_t kPadding = 32000;

ModelConfig read_phi3(HfConfig& config) {
  refuse_all_but_longrope(config, "phi3");
  ModelConfig model = read_llama_like(config, 0, kPadding, {.part = 1, .original_length = true});
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.residual_dropout = config.number("resid_pdrop", 0);
  const int64_t window = config.integer("sliding_window", 0);
  model.windows.assign(static_cast<size_t>(model.layers), window);
  return model;
}

nlohmann::ordered_json write_phi3(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  write_rotated_part(model, json);
  json["original_max_position_embeddings"] = model.rotary.scaling == RopeScalingKind::longrope
                                                 ? model.rotary.original_max_positions
                                                 : model.max_positions;
  json["resid_pdrop"] = model.residual_dropout;
  write_common_window(model, json);
  return json;
}

TensorNames names() {
  TensorNames names = llama_names();
  names.qkv = "model.layers.{}.self_attn.qkv_proj";
  names.gate_up = "model.layers.{}.mlp.gate_up_proj";
  return names;
}

}  // namespace

ModelFamily phi3() {
  return {"phi3", "Phi3ForCausalLM", read_phi3, write_phi3, names()};
}

}  // namespace viaduct::families
