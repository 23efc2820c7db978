// Experts as the families of DeepSeek have them, and those that took them over (GLM 4.5,
// dots.llm1): an expert for all tokens, the first layers dense, and DeepSeek-V3's choice.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

// A group's score is the sum of this many of its best experts' scores.
constexpr int64_t kBestOfGroup = 2;

}  // namespace

void read_deepseek_experts(HfConfig& config, const DeepSeekDefaults& defaults, ModelConfig& model) {
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "n_routed_experts", defaults.experts);
  moe.routing.topk = config.integer("num_experts_per_tok", defaults.topk);
  moe.routing.scaling = config.number("routed_scaling_factor", defaults.scaling);
  moe.feed_forward = config.integer("moe_intermediate_size", defaults.feed_forward);
  const int64_t shared = config.integer("n_shared_experts", defaults.shared_experts);
  VIADUCT_CHECK(ConfigError, shared >= 1 && shared <= moe.experts,
                "{}: n_shared_experts {}: expected 1 to n_routed_experts = {}", config.where(),
                shared, moe.experts);
  moe.shared_feed_forward = shared * moe.feed_forward;
  expect_only(config, "moe_layer_freq", config.integer("moe_layer_freq", 1), 1);
  const int64_t dense = config.integer("first_k_dense_replace", defaults.dense_layers);
  for (int64_t layer = 0; layer < model.layers; ++layer)
    moe.layers.push_back(layer >= dense ? 1 : 0);
  // Losses and placement of DeepSeek's own training.
  config.ignore({"aux_loss_alpha", "seq_aux", "ep_size", "output_router_logits"});
}

void expect_deepseek_experts(const ModelConfig& model, FamilyChoices& choices) {
  const MoeConfig& moe = model.moe;
  choices.expect(moe.any(), "num_moe_experts", "experts", "null");
  choices.expect(moe.feed_forward > 0 && moe.shared_feed_forward > 0 &&
                     moe.shared_feed_forward % std::max<int64_t>(1, moe.feed_forward) == 0,
                 "moe_shared_expert_intermediate_size", "a multiple of moe_ffn_hidden_size",
                 moe.shared_feed_forward);
  choices.expect(moe.shared_feed_forward <= moe.experts * moe.feed_forward,
                 "moe_shared_expert_intermediate_size",
                 fmt::format("at most num_moe_experts · moe_ffn_hidden_size = {} · {}", moe.experts,
                             moe.feed_forward),
                 moe.shared_feed_forward);
  choices.expect(!moe.shared_gate, "moe_shared_expert_gate", "false", "true");
  bool routed = false;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (routed && !moe.routes(layer)) {
      choices.expect(false, "moe_layer_freq", "experts in all layers after the first with experts",
                     "a dense one");
      break;
    }
    routed = moe.routes(layer);
  }
}

void write_deepseek_experts(const ModelConfig& model, nlohmann::ordered_json& json) {
  const MoeConfig& moe = model.moe;
  int64_t dense = 0;
  while (dense < model.layers && !moe.routes(dense)) ++dense;
  json["n_routed_experts"] = moe.experts;
  json["num_experts_per_tok"] = moe.routing.topk;
  json["routed_scaling_factor"] = moe.routing.scaling;
  json["moe_intermediate_size"] = moe.feed_forward;
  json["n_shared_experts"] = moe.shared_feed_forward / moe.feed_forward;
  json["moe_layer_freq"] = 1;
  json["first_k_dense_replace"] = dense;
}

void read_deepseek_choice(HfConfig& config, const DeepSeekChoice& defaults, MoeConfig& moe) {
  moe.load_bias = true;
  moe.routing.score = ScoreFunction::sigmoid;
  moe.routing.normalize = config.boolean("norm_topk_prob", defaults.normalize);
  VIADUCT_CHECK(ConfigError, moe.routing.topk != 1 || !moe.routing.normalize,
                "{}: norm_topk_prob true with num_experts_per_tok 1 is not supported (supported: "
                "false): every token would have the weight 1, whatever its router says",
                config.where());
  moe.routing.groups = config.integer("n_group", defaults.groups);
  moe.routing.group_topk = config.integer("topk_group", defaults.group_topk);
  moe.routing.group_best = kBestOfGroup;
  expect_only(config, "scoring_func", config.text("scoring_func", "sigmoid"), "sigmoid");
  expect_only(config, "topk_method", config.text("topk_method", "noaux_tc"), "noaux_tc");
}

void expect_deepseek_choice(const ModelConfig& model, FamilyChoices& choices) {
  const RoutingRule& routing = model.moe.routing;
  choices.expect(routing.score == ScoreFunction::sigmoid, "moe_router_score_function", "sigmoid",
                 "softmax");
  choices.expect(model.moe.load_bias, "moe_router_enable_expert_bias", "true", "false");
  choices.expect(routing.groups > 0, "moe_router_num_groups", "groups", "null");
  choices.expect(routing.best_of_group() == kBestOfGroup, "moe_router_group_score_topk", "2",
                 routing.best_of_group());
}

void write_deepseek_choice(const ModelConfig& model, nlohmann::ordered_json& json) {
  const RoutingRule& routing = model.moe.routing;
  json["norm_topk_prob"] = routing.normalize;
  json["n_group"] = routing.groups;
  json["topk_group"] = routing.group_topk;
}

void read_multi_token_layers(HfConfig& config, ModelConfig& model) {
  // Hugging Face's code leaves these layers out.
  model.mtp_layers =
      config.integer("num_nextn_predict_layers", config.integer("num_mtp_layers", 0));
}

void resolve_deepseek_experts(const DeepSeekDefaults& defaults, MoeFields& moe) {
  moe.num_moe_experts.resolve(defaults.experts);
  moe.moe_router_topk.resolve(defaults.topk);
  moe.moe_router_topk_scaling_factor.resolve(defaults.scaling);
  moe.moe_ffn_hidden_size.resolve(defaults.feed_forward);
  moe.moe_shared_expert_intermediate_size.resolve(defaults.shared_experts * defaults.feed_forward);
}

void resolve_deepseek_choice(const DeepSeekChoice& defaults, MoeFields& moe) {
  moe.moe_router_score_function.resolve(ScoreFunction::sigmoid);
  moe.moe_router_enable_expert_bias.resolve(true);
  moe.moe_router_norm_topk_prob.resolve(defaults.normalize);
  moe.moe_router_num_groups.resolve(defaults.groups);
  moe.moe_router_group_topk.resolve(defaults.group_topk);
  moe.moe_router_group_score_topk.resolve(kBestOfGroup);
}

TensorNames deepseek_expert_names() {
  TensorNames names = sparse_llama_names();
  names.shared_gate = "model.layers.{}.mlp.shared_experts.gate_proj";
  names.shared_up = "model.layers.{}.mlp.shared_experts.up_proj";
  names.shared_down = "model.layers.{}.mlp.shared_experts.down_proj";
  names.shared_router = "";
  return names;
}

}  // namespace viaduct::families
