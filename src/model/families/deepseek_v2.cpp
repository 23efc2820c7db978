// DeepSeek-V2 (DeepSeek-AI 2024, arXiv 2405.04434): latent attention, and experts with a softmax
// over all of them, in every layer but the first ones.

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

// A group's score is that of its best expert.
constexpr int64_t kGroupBest = 1;

ModelConfig read_deepseek_v2(HfConfig& config) {
  ModelConfig model = read_deepseek(config, {.experts = 64,
                                             .topk = 6,
                                             .feed_forward = 1407,
                                             .shared_experts = 2,
                                             .dense_layers = 0,
                                             .scaling = 1});
  model.moe.routing.pre_softmax = true;
  expect_only(config, "scoring_func", config.text("scoring_func", "softmax"), "softmax");
  VIADUCT_CHECK(ConfigError, !config.boolean("norm_topk_prob", false),
                "{}: norm_topk_prob true is not supported (supported: false; Hugging Face's code "
                "does not read it)",
                config.where());
  const std::string method = config.text("topk_method", "greedy");
  VIADUCT_CHECK(ConfigError, method == "greedy" || method == "group_limited_greedy",
                "{}: topk_method {} is not supported (supported: greedy, group_limited_greedy)",
                config.where(), method);
  if (method == "greedy") {
    config.ignore({"n_group", "topk_group"});
    return model;
  }
  model.moe.routing.groups = config.integer("n_group", 8);
  model.moe.routing.group_topk = config.integer("topk_group", 3);
  model.moe.routing.group_best = kGroupBest;
  return model;
}

nlohmann::ordered_json write_deepseek_v2(const ModelConfig& model) {
  FamilyChoices choices("deepseek_v2");
  const RoutingRule& routing = model.moe.routing;
  choices.expect(routing.score == ScoreFunction::softmax, "moe_router_score_function", "softmax",
                 "sigmoid");
  choices.expect(routing.pre_softmax, "moe_router_pre_softmax", "true", "false");
  choices.expect(!model.moe.load_bias, "moe_router_enable_expert_bias", "false", "true");
  choices.expect(routing.groups == 0 || routing.best_of_group() == kGroupBest,
                 "moe_router_group_score_topk", "1", routing.best_of_group());
  choices.throw_if_any();
  nlohmann::ordered_json json = write_deepseek(model);
  json["scoring_func"] = "softmax";
  json["norm_topk_prob"] = false;
  json["topk_method"] = routing.groups > 0 ? "group_limited_greedy" : "greedy";
  if (routing.groups > 0) {
    json["n_group"] = routing.groups;
    json["topk_group"] = routing.group_topk;
  }
  // Always neighbours in Hugging Face's code: halves are a field of ours.
  if (!model.rotary.interleaved) json["rope_interleave"] = false;
  return json;
}

void resolve_deepseek_v2(ModelFields& fields) {
  resolve_deepseek(fields);
  fields.moe.num_moe_experts.resolve(64);
  fields.moe.moe_router_topk.resolve(6);
  fields.moe.moe_router_pre_softmax.resolve(true);
  fields.moe.moe_ffn_hidden_size.resolve(1408);
  fields.moe.moe_shared_expert_intermediate_size.resolve(2 * 1408);
}

}  // namespace

ModelFamily deepseek_v2() {
  return {"deepseek_v2",    "DeepseekV2ForCausalLM", read_deepseek_v2,       write_deepseek_v2,
          deepseek_names(), resolve_deepseek_v2,     RotaryPairs::neighbours};
}

}  // namespace viaduct::families
