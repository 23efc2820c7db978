// Seed-OSS (2025): Llama with biases on q, k and v, and dropout on attention and branches.

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kDropout = 0.1;
constexpr int64_t kHeadDim = 128;

ModelConfig read_seed_oss(HfConfig& config) {
  ModelConfig model = read_llama_like(config, kHeadDim, 1);
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qkv_bias = config.boolean("attention_bias", true);
  model.projection_bias = config.boolean("attention_out_bias", false);
  model.up_bias = model.down_bias = config.boolean("mlp_bias", false);
  model.attention_dropout = config.number("attention_dropout", kDropout);
  model.residual_dropout = config.number("residual_dropout", kDropout);
  return model;
}

nlohmann::ordered_json write_seed_oss(const ModelConfig& model) {
  nlohmann::ordered_json json = write_llama_like(model);
  json["attention_bias"] = model.qkv_bias;
  json["attention_out_bias"] = model.projection_bias;
  json["mlp_bias"] = model.up_bias;
  json["residual_dropout"] = model.residual_dropout;
  return json;
}

void resolve_seed_oss(ModelFields& fields) {
  fields.layernorm_epsilon.resolve(1e-6);
  fields.add_qkv_bias.resolve(true);
}

}  // namespace

ModelFamily seed_oss() {
  return {"seed_oss",     "SeedOssForCausalLM", read_seed_oss,
          write_seed_oss, llama_names(),        resolve_seed_oss};
}

}  // namespace viaduct::families
