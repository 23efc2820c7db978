// What families with mixtures of experts share.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"

namespace viaduct::families {
namespace {

/// 1 for a layer with experts, 0 for a dense one.
std::vector<int64_t> read_sparse_layers(HfConfig& config, int64_t layers) {
  const int64_t step = read_interval(config, "decoder_sparse_step", 1);
  const std::vector<int64_t> dense = config.integers("mlp_only_layers");
  std::vector<int64_t> sparse;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    sparse.push_back(!listed && (layer + 1) % step == 0 ? 1 : 0);
  }
  return sparse;
}

}  // namespace

int64_t read_experts(HfConfig& config, const std::string& name, int64_t fallback) {
  // transformers gives each family one of these names, another one in some versions, and takes all
  // of them.
  std::string said;
  int64_t experts = fallback;
  for (const std::string& one : {name, std::string("num_experts"), std::string("num_local_experts"),
                                 std::string("n_routed_experts")}) {
    if (!config.has(one)) continue;
    const int64_t found = config.integer(one);
    VIADUCT_CHECK(ConfigError, said.empty() || found == experts,
                  "{}: {} is {}, but {} is {}: expected the same number of experts", config.where(),
                  one, found, said, experts);
    if (said.empty()) said = one, experts = found;
  }
  VIADUCT_CHECK(ConfigError, experts >= 1, "{}: {} {}: expected at least 1", config.where(),
                said.empty() ? name : said, experts);
  return experts;
}

void read_router_training(HfConfig& config, MoeConfig& moe) {
  // Hugging Face's own training asks for this loss beside the model (output_router_logits);
  // moe_aux_loss_coeff is ours.
  config.ignore({"output_router_logits"});
  moe.folder_coefficient = config.number("router_aux_loss_coef", 0);
  const double noise = config.number("router_jitter_noise", 0);
  VIADUCT_CHECK(ConfigError, noise == 0,
                "{}: router_jitter_noise {} is not supported (supported: 0)", config.where(),
                noise);
}

void write_router_training(const MoeConfig& moe, nlohmann::ordered_json& json) {
  if (moe.folder_coefficient != 0) json["router_aux_loss_coef"] = moe.folder_coefficient;
}

void expect_experts_everywhere(const ModelConfig& model, FamilyChoices& choices) {
  choices.expect(model.moe.any(), "num_moe_experts", "experts", "null");
  const auto& layers = model.moe.layers;
  choices.expect(std::find(layers.begin(), layers.end(), 0) == layers.end(), "moe_layer_freq",
                 "experts in every layer", "dense ones");
}

void expect_softmax_of_chosen(const ModelConfig& model, FamilyChoices& choices) {
  choices.expect(!model.moe.routing.pre_softmax, "moe_router_pre_softmax", "false",
                 model.moe.sinkhorn
                     ? "true, which moe_router_load_balancing_type=sinkhorn needs: its weights are "
                       "a softmax over all experts; nearest: aux_loss"
                     : "true");
}

void expect_experts_of_full_width(const ModelConfig& model, FamilyChoices& choices) {
  choices.expect(model.moe.feed_forward == model.feed_forward, "moe_ffn_hidden_size",
                 "ffn_hidden_size", model.moe.feed_forward);
}

void expect_no_shared_expert(const ModelConfig& model, FamilyChoices& choices) {
  choices.expect(model.moe.shared_feed_forward == 0, "moe_shared_expert_intermediate_size", "null",
                 model.moe.shared_feed_forward);
}

void read_local_experts(HfConfig& config, const LocalExperts& defaults, ModelConfig& model) {
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "num_local_experts", defaults.experts);
  moe.routing.topk = config.integer("num_experts_per_tok", defaults.topk);
  moe.feed_forward = model.feed_forward;
  moe.layers.assign(static_cast<size_t>(model.layers), 1);
  read_router_training(config, moe);
}

void refuse_weight_of_one(const HfConfig& config, std::string_view field,
                          const ModelConfig& model) {
  VIADUCT_CHECK(ConfigError, model.moe.routing.topk > 1,
                "{}: {} {} is not supported (supported: at least 2; with 1 every token would have "
                "the weight 1, whatever its router says)",
                config.where(), field, model.moe.routing.topk);
}

void expect_local_experts(const ModelConfig& model, FamilyChoices& choices) {
  expect_experts_of_full_width(model, choices);
  expect_softmax_of_chosen(model, choices);
  expect_no_shared_expert(model, choices);
}

void write_local_experts(const ModelConfig& model, nlohmann::ordered_json& json) {
  json["num_local_experts"] = model.moe.experts;
  json["num_experts_per_tok"] = model.moe.routing.topk;
  write_router_training(model.moe, json);
}

void read_qwen_experts(HfConfig& config, const QwenExperts& defaults, ModelConfig& model) {
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "num_experts", defaults.experts);
  moe.routing.topk = config.integer("num_experts_per_tok", defaults.topk);
  moe.routing.pre_softmax = !config.boolean("norm_topk_prob", false);
  moe.feed_forward = config.integer("moe_intermediate_size", defaults.feed_forward);
  moe.layers = read_sparse_layers(config, model.layers);
  read_router_training(config, moe);
}

void write_qwen_experts(const ModelConfig& model, nlohmann::ordered_json& json) {
  json["num_experts"] = model.moe.experts;
  json["num_experts_per_tok"] = model.moe.routing.topk;
  write_router_training(model.moe, json);
  json["norm_topk_prob"] = !model.moe.routing.pre_softmax;
  json["moe_intermediate_size"] = model.moe.feed_forward;
  json["decoder_sparse_step"] = 1;
  auto dense = nlohmann::ordered_json::array();
  for (int64_t layer = 0; layer < model.layers; ++layer)
    if (!model.moe.routes(layer)) dense.push_back(layer);
  json["mlp_only_layers"] = dense;
}

TensorNames sparse_llama_names() {
  TensorNames names = llama_names();
  names.router = "model.layers.{}.mlp.gate";
  names.expert_gate = "model.layers.{}.mlp.experts.{}.gate_proj";
  names.expert_up = "model.layers.{}.mlp.experts.{}.up_proj";
  names.expert_down = "model.layers.{}.mlp.experts.{}.down_proj";
  names.shared_gate = "model.layers.{}.mlp.shared_expert.gate_proj";
  names.shared_up = "model.layers.{}.mlp.shared_expert.up_proj";
  names.shared_down = "model.layers.{}.mlp.shared_expert.down_proj";
  names.shared_router = "model.layers.{}.mlp.shared_expert_gate";
  return names;
}

}  // namespace viaduct::families
