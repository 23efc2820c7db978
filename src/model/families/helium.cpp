// Helium (Kyutai, 2025): Llama with rotary pairs of neighbours.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kHeliumBase = 100000, kHeliumEpsilon = 1e-8;
constexpr int64_t kHeliumHeadDim = 128, kHeliumPadding = 3;

ModelConfig read_helium(HfConfig& config) {
  ModelConfig model = read_llama_like(config, kHeliumHeadDim, kHeliumPadding,
                                      {.base = kHeliumBase, .interleaved = true});
  check_heads_fill(config, model);
  model.norm_eps = config.number("rms_norm_eps", kHeliumEpsilon);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("attention_bias", false);
  model.up_bias = model.down_bias = config.boolean("mlp_bias", false);
  return model;
}

nlohmann::ordered_json write_helium(const ModelConfig& model) {
  FamilyChoices choices("helium");
  expect_heads_fill(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model, {.interleaved = true});
  write_llama_biases(model, json);
  return json;
}

void resolve_helium(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(kHeliumEpsilon);
  fields.rotary_base.resolve(kHeliumBase);
  fields.rotary_interleaved.resolve(true);
}

}  // namespace

ModelFamily helium() {
  return {"helium",       "HeliumForCausalLM",    read_helium, write_helium, llama_names(),
          resolve_helium, RotaryPairs::neighbours};
}

}  // namespace viaduct::families
