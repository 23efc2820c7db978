// ERNIE 4.5 without experts (2025): Llama with rotary pairs of neighbours.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kBase = 500000;
constexpr int64_t kHeadDim = 128;

}  // namespace

ModelConfig read_ernie(HfConfig& config, int64_t default_head_dim) {
  ModelConfig model =
      read_llama_like(config, default_head_dim, 0, {.base = kBase, .interleaved = true});
  model.norm_eps = config.number("rms_norm_eps", 1e-5);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.tied_embeddings = config.boolean("tie_word_embeddings", true);
  return model;
}

void resolve_ernie(ModelFields& fields) {
  fields.rotary_base.resolve(kBase);
  fields.rotary_interleaved.resolve(true);
  fields.share_embeddings_and_output_weights.resolve(true);
}

namespace {

ModelConfig read_ernie4_5(HfConfig& config) {
  ModelConfig model = read_ernie(config, kHeadDim);
  model.qkv_bias = model.projection_bias = model.up_bias = model.down_bias =
      config.boolean("use_bias", false);
  return model;
}

nlohmann::ordered_json write_ernie4_5(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model, {.interleaved = true});
  json["use_bias"] = model.qkv_bias;
  return json;
}

}  // namespace

ModelFamily ernie4_5() {
  return {"ernie4_5",    "Ernie4_5ForCausalLM", read_ernie4_5,           write_ernie4_5,
          llama_names(), resolve_ernie,         RotaryPairs::neighbours, "Ernie4_5_ForCausalLM"};
}

}  // namespace viaduct::families
