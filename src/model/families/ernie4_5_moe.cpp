// ERNIE 4.5 with mixtures of experts (2025): ERNIE's attention; experts are chosen by the softmax
// over all of them plus a bias and weighted by a softmax over the chosen ones, beside experts that
// all tokens use, from one layer to another.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "model/families/families.h"
#include "model/model_fields.h"

namespace viaduct::families {
namespace {

constexpr int64_t kErnieExperts = 64, kErnieChosen = 6, kErnieFeedForward = 1536, kErnieShared = 2;
// Hugging Face's code divides by the sum of the chosen probabilities, or by this where it is less.
// Here they are a softmax over the chosen ones, which is the same above it.
constexpr double kLeastSum = 1e-12;

/// Layers [first, last] whose number, counted from 1, is a multiple of `every` have experts.
struct ExpertLayers {
  int64_t first = 0, last = 0, every = 1;

  bool have(int64_t layer) const {
    return layer >= first && layer <= last && (layer + 1) % every == 0;
  }
};

/// Those of a model, if it has any.
ExpertLayers expert_layers(const ModelConfig& model) {
  ExpertLayers found{model.layers, -1, 1};
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.moe.routes(layer)) continue;
    if (found.last >= 0 && found.last == found.first) found.every = layer - found.first;
    found.first = std::min(found.first, layer);
    found.last = layer;
  }
  return found;
}

/// What the publisher's file says and Hugging Face's code does not read.
void read_publishers_fields(HfConfig& config) {
  VIADUCT_CHECK(ConfigError, config.boolean("moe_use_aux_free", true),
                "{}: moe_use_aux_free false is not supported (supported: true, a bias of each "
                "expert's choice)",
                config.where());
  expect_only(config, "moe_gate", config.text("moe_gate", "topk"), "topk");
  // Limits of its training, and layers of multi-token prediction, whose weights are not read.
  config.ignore({"moe_capacity", "multi_token_pred_lambda", "num_nextn_predict_layers"});
}

ModelConfig read_ernie4_5_moe(HfConfig& config) {
  VIADUCT_CHECK(ConfigError, !config.boolean("use_bias", false),
                "{}: use_bias true is not supported (supported: false; the head would have a bias "
                "too)",
                config.where());
  ModelConfig model = read_ernie(config, 0);
  MoeConfig& moe = model.moe;
  moe.experts = read_experts(config, "moe_num_experts", kErnieExperts);
  moe.routing.topk = config.integer("moe_k", config.integer("num_experts_per_tok", kErnieChosen));
  refuse_weight_of_one(config, config.has("moe_k") ? "moe_k" : "num_experts_per_tok", model);
  moe.routing.choose_probabilities = moe.load_bias = true;
  moe.feed_forward = config.integer("moe_intermediate_size", kErnieFeedForward);
  const int64_t shared = config.integer("moe_num_shared_experts", kErnieShared);
  VIADUCT_CHECK(ConfigError, shared >= 0 && shared <= moe.experts,
                "{}: moe_num_shared_experts {}: expected 0 to moe_num_experts = {}", config.where(),
                shared, moe.experts);
  moe.shared_feed_forward = shared * moe.feed_forward;
  ExpertLayers layers{config.integer("moe_layer_start_index", 1),
                      config.integer("moe_layer_end_index", -1),
                      read_interval(config, "moe_layer_interval", 1)};
  if (layers.last == -1) layers.last = model.layers - 1;
  for (int64_t layer = 0; layer < model.layers; ++layer)
    moe.layers.push_back(layers.have(layer) ? 1 : 0);
  expect_only(config, "moe_norm_min", config.number("moe_norm_min", kLeastSum), kLeastSum);
  read_router_training(config, moe);
  read_publishers_fields(config);
  return model;
}

nlohmann::ordered_json write_ernie4_5_moe(const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  FamilyChoices choices("ernie4_5_moe");
  choices.expect(moe.any(), "num_moe_experts", "experts", "null");
  choices.expect(!model.qkv_bias && !model.projection_bias && !model.up_bias, "add_bias_linear",
                 "false", "true");
  choices.expect(
      moe.feed_forward > 0 && moe.shared_feed_forward % std::max<int64_t>(1, moe.feed_forward) == 0,
      "moe_shared_expert_intermediate_size", "a multiple of moe_ffn_hidden_size",
      moe.shared_feed_forward);
  choices.expect(moe.shared_feed_forward <= moe.experts * moe.feed_forward,
                 "moe_shared_expert_intermediate_size",
                 fmt::format("at most num_moe_experts · moe_ffn_hidden_size = {} · {}", moe.experts,
                             moe.feed_forward),
                 moe.shared_feed_forward);
  choices.expect(!moe.shared_gate, "moe_shared_expert_gate", "false", "true");
  expect_softmax_of_chosen(model, choices);
  const ExpertLayers layers = expert_layers(model);
  bool regular = true;
  for (int64_t layer = 0; layer < model.layers; ++layer)
    regular = regular && moe.routes(layer) == layers.have(layer);
  choices.expect(regular, "moe_layer_freq",
                 "experts from one layer to another, in all of them or in every n-th, counted from "
                 "the first of the model",
                 "other layers");
  choices.throw_if_any();
  nlohmann::ordered_json json = write_llama_like(model, {.interleaved = true});
  json["use_bias"] = false;
  json["moe_num_experts"] = moe.experts;
  json["moe_k"] = moe.routing.topk;
  json["moe_intermediate_size"] = moe.feed_forward;
  json["moe_num_shared_experts"] = moe.shared_feed_forward / moe.feed_forward;
  json["moe_layer_start_index"] = layers.first;
  json["moe_layer_end_index"] = layers.last;
  json["moe_layer_interval"] = layers.every;
  write_router_training(moe, json);
  return json;
}

TensorNames ernie4_5_moe_names() {
  TensorNames names = deepseek_expert_names();
  names.load_bias = "model.layers.{}.mlp.moe_statics.e_score_correction_bias";
  names.load_bias_row = true;
  names.unread_prefixes = {"model.mtp_", "mtp_"};
  return names;
}

void resolve_ernie4_5_moe(ModelFields& fields) {
  resolve_ernie(fields);
  fields.moe.num_moe_experts.resolve(kErnieExperts);
  fields.moe.moe_router_topk.resolve(kErnieChosen);
  fields.moe.moe_router_enable_expert_bias.resolve(true);
  fields.moe.moe_ffn_hidden_size.resolve(kErnieFeedForward);
  fields.moe.moe_shared_expert_intermediate_size.resolve(kErnieShared * kErnieFeedForward);
}

}  // namespace

ModelFamily ernie4_5_moe() {
  return {"ernie4_5_moe",         "Ernie4_5_MoeForCausalLM", read_ernie4_5_moe,
          write_ernie4_5_moe,     ernie4_5_moe_names(),      resolve_ernie4_5_moe,
          RotaryPairs::neighbours};
}

}  // namespace viaduct::families
