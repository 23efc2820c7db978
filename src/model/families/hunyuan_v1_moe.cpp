// Hunyuan with mixtures of experts (Tencent, 2025): the attention of its dense models, and in every
// layer experts with a softmax over the chosen ones, beside one that all tokens use.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

/// A number that published files list for each layer: the same in all of them, as Hugging Face's
/// code builds its experts.
int64_t read_common(HfConfig& config, std::string_view field, int64_t fallback) {
  const std::vector<int64_t> listed = config.integers(field);
  if (listed.empty()) return fallback;
  const bool same = std::ranges::all_of(listed, [&](int64_t one) { return one == listed.front(); });
  VIADUCT_CHECK(ConfigError, same,
                "{}: {} differs from layer to layer, which is not supported (supported: the same "
                "number in all of them)",
                config.where(), field);
  return listed.front();
}

/// What the publisher's own code can do otherwise, at the only values that Hugging Face's computes.
void read_fixed_choices(HfConfig& config, const ModelConfig& model) {
  for (const char* field : {"norm_topk_prob", "use_mixed_mlp_moe"})
    expect_only(config, field, config.boolean(field, true), true);
  for (const char* field : {"group_limited_greedy", "moe_drop_tokens"})
    expect_only(config, field, config.boolean(field, false), false);
  expect_only(config, "moe_layer_num_skipped", config.integer("moe_layer_num_skipped", 0), 0);
  expect_only(config, "num_shared_expert", read_common(config, "num_shared_expert", 1), 1);
  const int64_t width = read_common(config, "moe_intermediate_size", model.feed_forward);
  VIADUCT_CHECK(ConfigError, width == model.feed_forward,
                "{}: moe_intermediate_size {} is not supported (supported: intermediate_size, {}, "
                "which Hugging Face's code takes)",
                config.where(), width, model.feed_forward);
  // Of the choices above, and sizes of attention that the model does not have.
  config.ignore({"kv_lora_rank", "moe_random_routing_dropped_token", "n_group", "num_media_embeds",
                 "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "routed_scaling_factor",
                 "skip_cls_token", "topk_group", "v_head_dim"});
}

ModelConfig read_hunyuan_v1_moe(HfConfig& config) {
  ModelConfig model = read_hunyuan(config);
  MoeConfig& moe = model.moe;
  moe.experts = config.is_list("num_experts") ? read_common(config, "num_experts", 1)
                                              : read_experts(config, "num_experts", 1);
  moe.routing.topk = read_common(config, "moe_topk", config.integer("num_experts_per_tok", 1));
  refuse_weight_of_one(config, "moe_topk", model);
  moe.feed_forward = moe.shared_feed_forward = model.feed_forward;
  moe.layers.assign(static_cast<size_t>(model.layers), 1);
  read_router_training(config, moe);
  read_fixed_choices(config, model);
  return model;
}

nlohmann::ordered_json write_hunyuan_v1_moe(const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  FamilyChoices choices("hunyuan_v1_moe");
  expect_experts_everywhere(model, choices);
  expect_experts_of_full_width(model, choices);
  expect_softmax_of_chosen(model, choices);
  choices.expect(moe.routing.topk > 1, "moe_router_topk", "at least 2", moe.routing.topk);
  choices.expect(moe.shared_feed_forward == model.feed_forward,
                 "moe_shared_expert_intermediate_size",
                 fmt::format("ffn_hidden_size = {}", model.feed_forward), moe.shared_feed_forward);
  choices.expect(!moe.shared_gate, "moe_shared_expert_gate", "false", "true");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_hunyuan(model);
  json["num_experts"] = moe.experts;
  json["moe_topk"] = moe.routing.topk;
  write_router_training(moe, json);
  return json;
}

TensorNames hunyuan_v1_moe_names() {
  TensorNames names = sparse_llama_names();
  names.q_norm = "model.layers.{}.self_attn.query_layernorm";
  names.k_norm = "model.layers.{}.self_attn.key_layernorm";
  names.gate = names.up = names.down = "";  // no layer is dense
  names.router = "model.layers.{}.mlp.gate.wg";
  names.shared_gate = "model.layers.{}.mlp.shared_mlp.gate_proj";
  names.shared_up = "model.layers.{}.mlp.shared_mlp.up_proj";
  names.shared_down = "model.layers.{}.mlp.shared_mlp.down_proj";
  names.shared_router = "";
  return names;
}

void resolve_hunyuan_v1_moe(ModelFields& fields) {
  resolve_hunyuan(fields);
  fields.moe.num_moe_experts.resolve(64);
  fields.moe.moe_router_topk.resolve(8);
  fields.ffn_hidden_size.resolve(3072);
  fields.moe.moe_shared_expert_intermediate_size.resolve(fields.ffn_hidden_size.value());
}

}  // namespace

ModelFamily hunyuan_v1_moe() {
  return {"hunyuan_v1_moe",     "HunYuanMoEV1ForCausalLM", read_hunyuan_v1_moe,
          write_hunyuan_v1_moe, hunyuan_v1_moe_names(),    resolve_hunyuan_v1_moe};
}

}  // namespace viaduct::families
