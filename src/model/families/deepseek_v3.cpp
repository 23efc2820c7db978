// DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437): latent attention, and experts chosen by sigmoid
// scores plus a bias that balances them, from the best groups.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

// A group's score is the sum of this many of its best experts' scores.
constexpr int64_t kGroupBest = 2;

ModelConfig read_deepseek_v3(HfConfig& config) {
  ModelConfig model = read_deepseek(config, {.experts = 256,
                                             .topk = 8,
                                             .feed_forward = 2048,
                                             .shared_experts = 1,
                                             .dense_layers = 3,
                                             .scaling = 2.5});
  MoeConfig& moe = model.moe;
  moe.load_bias = true;
  moe.routing.score = ScoreFunction::sigmoid;
  moe.routing.normalize = config.boolean("norm_topk_prob", true);
  moe.routing.groups = config.integer("n_group", 8);
  moe.routing.group_topk = config.integer("topk_group", 4);
  moe.routing.group_best = kGroupBest;
  const auto only = [&](const char* field, const char* value) {
    const std::string found = config.text(field, value);
    VIADUCT_CHECK(ConfigError, found == value, "{}: {} {} is not supported (supported: {})",
                  config.where(), field, found, value);
  };
  only("scoring_func", "sigmoid");
  only("topk_method", "noaux_tc");
  // Hugging Face's code leaves these layers out.
  model.mtp_layers =
      config.integer("num_nextn_predict_layers", config.integer("num_mtp_layers", 0));
  return model;
}

nlohmann::ordered_json write_deepseek_v3(const ModelConfig& model) {
  FamilyChoices choices("deepseek_v3");
  const RoutingRule& routing = model.moe.routing;
  choices.expect(routing.score == ScoreFunction::sigmoid, "moe_router_score_function", "sigmoid",
                 "softmax");
  choices.expect(model.moe.load_bias, "moe_router_enable_expert_bias", "true", "false");
  choices.expect(routing.groups > 0, "moe_router_num_groups", "groups", "null");
  choices.expect(routing.best_of_group() == kGroupBest, "moe_router_group_score_topk", "2",
                 routing.best_of_group());
  choices.throw_if_any();
  nlohmann::ordered_json json = write_deepseek(model);
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["norm_topk_prob"] = routing.normalize;
  json["n_group"] = routing.groups;
  json["topk_group"] = routing.group_topk;
  if (model.mtp_layers > 0) json["num_nextn_predict_layers"] = model.mtp_layers;
  json["rope_interleave"] = model.rotary.interleaved;
  return json;
}

void resolve_deepseek_v3(ModelFields& fields) {
  resolve_deepseek(fields);
  MoeFields& moe = fields.moe;
  moe.num_moe_experts.resolve(256);
  moe.moe_router_topk.resolve(8);
  moe.moe_router_score_function.resolve("sigmoid");
  moe.moe_router_enable_expert_bias.resolve(true);
  moe.moe_router_num_groups.resolve(8);
  moe.moe_router_group_topk.resolve(4);
  moe.moe_router_group_score_topk.resolve(kGroupBest);
  moe.moe_router_topk_scaling_factor.resolve(2.5);
  moe.moe_ffn_hidden_size.resolve(2048);
  moe.moe_shared_expert_intermediate_size.resolve(2048);
}

}  // namespace

ModelFamily deepseek_v3() {
  return {"deepseek_v3",    "DeepseekV3ForCausalLM", read_deepseek_v3,           write_deepseek_v3,
          deepseek_names(), resolve_deepseek_v3,     RotaryPairs::as_config_says};
}

}  // namespace viaduct::families
