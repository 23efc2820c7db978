// MiniMax M2 (2025): attention with norms over all heads of queries and of keys, a part of each
// head rotated, and experts by sigmoid scores plus a bias in every layer.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr double kMiniMaxRotaryBase = 5e6;
constexpr int64_t kMiniMaxHeadDim = 128, kMiniMaxExperts = 256, kMiniMaxChosen = 8;

/// What the publisher's file says and Hugging Face's code does not read, at the only values that
/// this code computes.
void read_fixed_choices(HfConfig& config) {
  for (const char* field : {"use_routing_bias", "use_qk_norm"})
    expect_only(config, field, config.boolean(field, true), true);
  expect_only(config, "scoring_func", config.text("scoring_func", "sigmoid"), "sigmoid");
  expect_only(config, "qk_norm_type", config.text("qk_norm_type", "per_layer"), "per_layer");
  expect_only(config, "shared_intermediate_size", config.integer("shared_intermediate_size", 0), 0);
  const std::vector<int64_t> kinds = config.integers("attn_type_list");
  const bool full = std::ranges::all_of(kinds, [](int64_t kind) { return kind == 1; });
  VIADUCT_CHECK(ConfigError, full,
                "{}: attn_type_list has layers of another kind than 1 (supported: 1, softmax "
                "attention)",
                config.where());
  for (const char* field :
       {"layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta"})
    expect_only(config, field, config.number(field, 1), 1.0);
  // Sizes of parts that the model lacks, and layers of multi-token prediction that no folder has.
  config.ignore({"mlp_intermediate_size", "shared_moe_mode", "use_mtp", "num_mtp_modules",
                 "mtp_transformer_layers"});
}

ModelConfig read_minimax_m2(HfConfig& config) {
  // Published files have the rotated dims themselves.
  const auto head = static_cast<double>(config.integer("head_dim", kMiniMaxHeadDim));
  const double part =
      config.has("rotary_dim") ? static_cast<double>(config.integer("rotary_dim")) / head : 1;
  ModelConfig model =
      read_llama_like(config, kMiniMaxHeadDim, -1, {.base = kMiniMaxRotaryBase, .part = part});
  model.activation = activation_from_hf(config, "hidden_act", "silu");
  model.qk_norm = true;
  model.qk_norm_per_head = false;
  read_local_experts(config, {.experts = kMiniMaxExperts, .topk = kMiniMaxChosen}, model);
  refuse_weight_of_one(config, "num_experts_per_tok", model);
  model.moe.load_bias = true;
  model.moe.routing.score = ScoreFunction::sigmoid;
  read_fixed_choices(config);
  return model;
}

nlohmann::ordered_json write_minimax_m2(const ModelConfig& model) {
  FamilyChoices choices("minimax_m2");
  choices.expect(model.qk_norm && !model.qk_norm_per_head, "qk_layernorm_per_head",
                 "qk_layernorm=true and false", model.qk_norm_per_head);
  choices.expect(model.moe.load_bias, "moe_router_enable_expert_bias", "true", "false");
  choices.expect(model.moe.routing.score == ScoreFunction::sigmoid, "moe_router_score_function",
                 "sigmoid", "softmax");
  choices.expect(model.moe.routing.topk > 1, "moe_router_topk", "at least 2",
                 model.moe.routing.topk);
  expect_experts_everywhere(model, choices);
  expect_local_experts(model, choices);
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model);
  write_rotated_part(model, json);
  write_local_experts(model, json);
  return json;
}

TensorNames minimax_m2_names() {
  TensorNames names = mixtral_names();
  names.load_bias = "model.layers.{}.block_sparse_moe.e_score_correction_bias";
  return names;
}

void resolve_minimax_m2(ModelFields& fields) {
  fields.rotary_base.resolve(kMiniMaxRotaryBase);
  fields.layernorm_epsilon.resolve(1e-6);
  fields.qk_layernorm.resolve(true);
  fields.qk_layernorm_per_head.resolve(false);
  fields.moe.num_moe_experts.resolve(kMiniMaxExperts);
  fields.moe.moe_router_topk.resolve(kMiniMaxChosen);
  fields.moe.moe_router_score_function.resolve(ScoreFunction::sigmoid);
  fields.moe.moe_router_enable_expert_bias.resolve(true);
}

}  // namespace

ModelFamily minimax_m2() {
  return {"minimax_m2",     "MiniMaxM2ForCausalLM", read_minimax_m2,
          write_minimax_m2, minimax_m2_names(),     resolve_minimax_m2};
}

}  // namespace viaduct::families
