// DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437): latent attention, and experts chosen by sigmoid
// scores plus a bias that balances them, from the best groups. Moonlight's folders have this type
// too; Kimi K2's have their own (kimi_k2.cpp).

#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr DeepSeekDefaults kV3Experts{.experts = 256,
                                      .topk = 8,
                                      .feed_forward = 2048,
                                      .shared_experts = 1,
                                      .dense_layers = 3,
                                      .scaling = 2.5};
constexpr DeepSeekChoice kV3Choice{.groups = 8, .group_topk = 4};

}  // namespace

ModelConfig read_deepseek_v3(HfConfig& config) {
  ModelConfig model = read_deepseek(config, kV3Experts);
  read_deepseek_choice(config, kV3Choice, model.moe);
  read_multi_token_layers(config, model);
  return model;
}

nlohmann::ordered_json write_deepseek_v3(const ModelConfig& model) {
  FamilyChoices choices(model.family);
  expect_deepseek_choice(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_deepseek(model);
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  write_deepseek_choice(model, json);
  if (model.mtp_layers > 0) json["num_nextn_predict_layers"] = model.mtp_layers;
  json["rope_interleave"] = model.rotary.interleaved;
  return json;
}

void resolve_deepseek_v3(ModelFields& fields) {
  resolve_deepseek(fields);
  resolve_deepseek_experts(kV3Experts, fields.moe);
  resolve_deepseek_choice(kV3Choice, fields.moe);
}

ModelFamily deepseek_v3() {
  return {"deepseek_v3",    "DeepseekV3ForCausalLM", read_deepseek_v3,           write_deepseek_v3,
          deepseek_names(), resolve_deepseek_v3,     RotaryPairs::as_config_says};
}

}  // namespace viaduct::families
