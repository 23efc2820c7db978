#include "model/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "model/attention_check.h"
#include "model/family.h"
#include "model/moe_fields.h"
#include "model/parameter_maker.h"

namespace viaduct {

namespace {

/// Features beyond a plain gated activation that only experts can have.
void check_experts_extras(const ModelConfig& c, std::vector<std::string>& problems) {
  const auto& layers = c.moe.layers;
  const bool only_experts = c.moe.any() && c.moe.shared_feed_forward == 0 &&
                            std::find(layers.begin(), layers.end(), 0) == layers.end();
  const bool shaped = c.activation_clamp != 0 || c.activation_offset != 0;
  if (shaped && !(only_experts && c.gated)) {
    problems.push_back(fmt::format(
        "model.activation_func_clamp_value: {}, glu_linear_offset: {}: implemented for gated "
        "experts in every layer, none of them shared",
        c.activation_clamp, c.activation_offset));
  }
  if (c.moe.any() && (c.up_bias || c.down_bias) && !(only_experts && c.up_bias && c.down_bias)) {
    problems.push_back(
        "model.add_mlp_bias: true with num_moe_experts is implemented for experts in every layer, "
        "none of them shared");
  }
  if (c.router_bias && !c.moe.any())
    problems.push_back("model.moe_router_linear_bias: true needs num_moe_experts, which is null");
}

void check_above_zero(const std::string& name, double value, std::vector<std::string>& problems) {
  if (!(value > 0 && std::isfinite(value)))
    problems.push_back(fmt::format("model.{}: {}, expected a number above 0", name, value));
}

void check_linear_bias(const ModelConfig& c, std::vector<std::string>& problems) {
  if (c.positions != PositionKind::linear_bias) return;
  check_above_zero("alibi_bias_max", c.linear_bias_exponent, problems);
  check_above_zero("softmax_scale", c.attention_scale, problems);
  const auto refuse = [&](bool refused, const char* field, const char* why) {
    if (refused)
      problems.push_back(fmt::format(
          "model.{} is not implemented with position_embedding_type = alibi, {}", field, why));
  };
  // The bias of a score is that of its distance plus what all scores of the query have in common.
  refuse(c.attention_softcap != 0, "attn_logit_softcapping", "which adds to capped scores");
  refuse(c.attention_sinks, "softmax_type: learnable", "which shifts the scores beside the sinks");
  refuse(c.latent.any(), "multi_latent_attention", "whose heads have no room for it");
}

/// Norms of the stream and multipliers, and which layers rotate.
void check_block(const ModelConfig& c, std::vector<std::string>& problems) {
  if (!c.input_norms && !c.output_norms) {
    problems.push_back(
        "model.pre_sublayer_norm: false needs post_sublayer_norm, which is false: the block would "
        "have no norms");
  }
  if (c.shared_norm && !c.parallel_block) {
    problems.push_back(
        "model.parallel_block_shared_norm: true needs parallel_block, which is false");
  }
  if (!c.no_rope.empty() && static_cast<int64_t>(c.no_rope.size()) != c.layers) {
    problems.push_back(
        fmt::format("model.no_rope_freq: {} for {}",
                    counted(static_cast<int64_t>(c.no_rope.size()), "entry", "entries"),
                    counted(c.layers, "layer")));
  }
  if (c.xielu && (c.gated || c.moe.any())) {
    problems.push_back(
        fmt::format("model.activation_func: xielu is implemented without a gate and without "
                    "experts, found gated_linear_unit = {}, num_moe_experts = {}",
                    c.gated, c.moe.experts));
  }
  check_linear_bias(c, problems);
  check_above_zero("residual_multiplier", c.residual_scale, problems);
  check_above_zero("logit_multiplier", c.logit_scale, problems);
  if (c.positions == PositionKind::rotary && c.rotary.scaling == RopeScalingKind::dynamic &&
      c.rotary.alpha != 0) {
    check_above_zero("rope_scaling: alpha", c.rotary.alpha, problems);
    if (c.rotary.width == 2)
      problems.push_back("model.rope_scaling: alpha needs more than 2 rotated dims of a head");
  }
  if (c.window_rotary_base != 0)
    check_above_zero("window_rotary_base", c.window_rotary_base, problems);
}

/// `knob`: of the setting, without its end.
void check_steps(const std::string& knob, const AttentionTemperature& temperature,
                 std::vector<std::string>& problems) {
  check_above_zero(knob + "_scale", temperature.scale, problems);
  if (temperature.length < 1)
    problems.push_back(
        fmt::format("model.{}_length: {}, expected at least 1", knob, temperature.length));
}

void check_temperature(const ModelConfig& c, std::vector<std::string>& problems) {
  if (c.no_rope_temperature.any()) {
    check_steps("no_rope_temperature", c.no_rope_temperature, problems);
    if (c.latent.any() || c.head_dim % 2 != 0) {
      problems.push_back(
          fmt::format("model.no_rope_temperature_scale: {} needs heads of an even size "
                      "(kv_channels = {}) and no multi_latent_attention",
                      c.no_rope_temperature.scale, c.head_dim));
    }
  }
  if (!c.temperature.any()) return;
  const auto expect = [&](bool holds, const char* needed) {
    if (!holds)
      problems.push_back(fmt::format("model.attention_temperature_scale: {} needs {}",
                                     c.temperature.scale, needed));
  };
  check_steps("attention_temperature", c.temperature, problems);
  const bool rotary = c.positions == PositionKind::rotary;
  expect(rotary, "position_embedding_type=rope");
  expect(!rotary || c.latent.any() || c.rotary.width == c.head_dim, "rotary_percent=1");
  expect(!c.latent.any(), "multi_latent_attention=false");
  expect(c.window_rotary_base == 0, "window_rotary_base=null");
  expect(std::ranges::all_of(c.no_rope, [](int64_t layer) { return layer == 0; }),
         "rotary positions in every layer (no_rope_freq=[])");
}

/// Relative positions, and an encoder, which has no others.
void check_encoder(const ModelConfig& c, std::vector<std::string>& problems) {
  const bool relative = c.positions == PositionKind::relative;
  if (relative) {
    for (const bool both : {true, false}) {
      const std::string problem = relative_buckets_problem(c.relative.of(both));
      if (problem.empty()) continue;
      problems.push_back("model.relative_attention_num_buckets, relative_attention_max_distance: " +
                         problem);
      break;
    }
  }
  if (c.encoder.layers < 0)
    problems.push_back(
        fmt::format("model.encoder_num_layers: {}, expected at least 0", c.encoder.layers));
  if (relative != c.encoder.any()) {
    problems.push_back(
        fmt::format("model.encoder_num_layers: {} with position_embedding_type {}: an encoder and "
                    "relative positions are implemented together (T5)",
                    c.encoder.layers, relative ? "relative" : "other than relative"));
  }
  if (!c.encoder.any()) return;
  const auto refuse = [&](bool has, const char* field, const char* value) {
    if (has)
      problems.push_back(
          fmt::format("model.{}: {} is not implemented with encoder_num_layers", field, value));
  };
  refuse(c.latent.any(), "multi_latent_attention", "true");
  refuse(c.moe.any(), "num_moe_experts", "a number of experts");
  refuse(c.mtp_layers > 0, "mtp_num_layers", "a number of layers");
  refuse(c.attention_sinks, "softmax_type", "learnable");
  refuse(c.attention_softcap > 0, "attn_logit_softcapping", "a number");
  refuse(c.output_norms || !c.input_norms, "post_sublayer_norm", "true");
  refuse(c.qk_norm, "qk_layernorm", "true");
  refuse(c.parallel_block, "parallel_block", "true");
  refuse(c.embedding_norm, "embedding_norm", "true");
  refuse(!c.chunks.empty(), "attention_chunk_size", "a size");
  refuse(std::ranges::any_of(c.windows, [](int64_t window) { return window > 0; }), "window_size",
         "a window");
}

/// Tensors that the family has no names for could neither be saved nor loaded.
void check_names(const ModelConfig& c, std::vector<std::string>& problems) {
  if (c.family.empty()) return;
  const TensorNames& names = model_family(c.family).names;
  const auto need = [&](bool needed, bool has, const char* field, const char* what) {
    if (needed && !has)
      problems.push_back(
          fmt::format("model.{}: model family {} has no names for {}", field, c.family, what));
  };
  const bool experts = c.moe.any();
  const bool dense = !experts || std::ranges::find(c.moe.layers, 0) != c.moe.layers.end();
  need(experts, !names.router.empty(), "num_moe_experts", "experts");
  need(experts && c.moe.shared_feed_forward > 0, !names.shared_up.empty(),
       "moe_shared_expert_intermediate_size", "a shared expert");
  need(experts && c.up_bias, fuses_experts(names), "add_mlp_bias", "biases of experts");
  need(c.xielu, !names.alpha_p.empty(), "activation_func", "the slopes of xielu");
  // Norms without a name have no weights: that is for those of whole blocks alone.
  need(c.qk_norm && !c.qk_norm_own_weights && !c.latent.any(), !names.q_norm.empty(),
       "qk_layernorm", "norms of queries and keys");
  need(c.output_norms, !names.attention_output_norm.empty() && !names.mlp_output_norm.empty(),
       "post_sublayer_norm", "norms on the output of attention and feed-forward");
  need(c.qk_norm && c.qk_norm_own_weights, !names.q_head_norm.empty(), "qk_layernorm_own_weights",
       "norms with weights of each head");
  need(c.embedding_norm, !names.embedding_norm.empty(), "embedding_norm",
       "a norm of the embeddings");
  need(c.output_scale, !names.output_scale.empty(), "block_output_scale", "a factor of a block");
  need(c.full.values_from_keys, names.qkv.empty(), "full_attention_values_from_keys",
       "query and key without values");
  need(c.latent.any(), !names.kv_down.empty(), "multi_latent_attention", "latent attention");
  need(c.encoder.any(), !names.cross_q.empty(), "encoder_num_layers", "an encoder");
  need(c.positions == PositionKind::relative, !names.relative_table.empty(),
       "position_embedding_type", "relative positions");
  if (!c.encoder.any() && !names.cross_q.empty())
    problems.push_back(
        fmt::format("model.encoder_num_layers: 0, but models of family {} have an "
                    "encoder; expected at least 1",
                    c.family));
  need(dense, !names.up.empty(), experts ? "moe_layer_freq" : "num_moe_experts",
       "a dense feed-forward, which a layer without experts has");
}

}  // namespace

void check_model_config(const ModelConfig& c) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int64_t value) {
    if (value < 1)
      problems.push_back(fmt::format("model.{}: {}, expected at least 1", name, value));
  };
  positive("num_layers", c.layers);
  positive("hidden_size", c.hidden);
  positive("ffn_hidden_size", c.feed_forward);
  positive("num_attention_heads", c.heads);
  positive("num_query_groups", c.kv_heads);
  positive("kv_channels", c.head_dim);
  positive("vocab_size", c.vocabulary);
  positive("max_position_embeddings", c.max_positions);
  check_above_zero("layernorm_epsilon", c.norm_eps, problems);
  if (c.positions == PositionKind::rotary) check_above_zero("rotary_base", c.rotary.base, problems);
  if (c.mtp_layers < 0 || c.mtp_layers > kMostMultiTokenLayers)
    problems.push_back(fmt::format("model.mtp_num_layers: {}, expected 0 to {}", c.mtp_layers,
                                   kMostMultiTokenLayers));
  if (c.heads >= 1 && c.kv_heads >= 1 && c.heads % c.kv_heads != 0) {
    problems.push_back(
        fmt::format("model.num_query_groups: {} key-value heads do not divide {} attention heads",
                    c.kv_heads, c.heads));
  }
  if (c.positions == PositionKind::rotary &&
      (c.rotary.width < 2 || c.rotary.width % 2 != 0 || c.rotary.width > c.rotary_head_dim())) {
    problems.push_back(fmt::format(
        "model.{}: gives a rotary width of {} for heads of {}, expected an even number from 2 to "
        "the "
        "size of a head",
        c.latent.any() ? "qk_pos_emb_head_dim" : "rotary_percent", c.rotary.width,
        c.rotary_head_dim()));
  }
  check_attention(c, problems);
  Problems experts;
  check_moe_config(c.moe, c.layers, experts);
  problems.insert(problems.end(), experts.all().begin(), experts.all().end());
  check_experts_extras(c, problems);
  check_block(c, problems);
  check_temperature(c, problems);
  check_encoder(c, problems);
  const std::vector<std::string> of_images = vision_problems(c);
  problems.insert(problems.end(), of_images.begin(), of_images.end());
  check_names(c, problems);
  if (c.moe.any() && c.output_norms)
    problems.push_back("model.post_sublayer_norm: true is not implemented with num_moe_experts");
  if (c.output_scale && (c.moe.any() || c.parallel_block || c.mtp_layers > 0))
    problems.push_back(fmt::format("model.block_output_scale: true is not implemented with {}",
                                   c.moe.any()        ? "num_moe_experts"
                                   : c.parallel_block ? "parallel_block"
                                                      : "mtp_num_layers"));
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace viaduct
