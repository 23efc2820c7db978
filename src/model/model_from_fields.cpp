#include "model/model_from_fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/json.h"
#include "base/units.h"
#include "config/value_json.h"
#include "model/families/families.h"

namespace viaduct {
namespace {

RotarySpec rotary_of(const ModelFields& fields) {
  RotarySpec rotary;
  // A whole number of pairs.
  const LatentSizes latent = to_latent_sizes(fields.latent);
  const int64_t of_head =
      fields.full_attention_kv_channels.value().value_or(fields.kv_channels.value());
  rotary.width =
      latent.any()
          ? latent.rotary_dim
          : std::llround(fields.rotary_percent.value() * static_cast<double>(of_head) / 2) * 2;
  rotary.base = fields.rotary_base.value();
  rotary.interleaved = fields.rotary_interleaved.value();
  if (fields.rope_scaling.value().is_map()) {
    auto scaling = HfConfig::of_json(to_json(fields.rope_scaling.value()), "model.rope_scaling");
    families::read_rope_scaling(scaling, fields.max_position_embeddings.value(), rotary);
  }
  return rotary;
}

AttentionTemperature temperature_of(const ModelFields& fields) {
  const auto& scale = fields.attention_temperature_scale.value();
  if (!scale) return {};
  return {*scale, fields.attention_temperature_length.value().value_or(
                      fields.max_position_embeddings.value())};
}

std::optional<double> positive_or_none(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> size_or_none(int64_t value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// A size in tokens that some layers have, as two fields: the size, and which layers.
struct SizeOfLayers {
  const char* what;  // such sizes, for messages
  Auto<std::optional<int64_t>>& size;
  Auto<std::vector<int64_t>>& layers;
};

/// `sizes`: of each layer; 0: it has none.
void take_sizes(const SizeOfLayers& fields, const std::vector<int64_t>& sizes) {
  int64_t one = 0;
  std::vector<int64_t> layers;
  for (const int64_t size : sizes) {
    VIADUCT_CHECK(ConfigError, size == 0 || one == 0 || size == one,
                  "the model has {} of {} and of {} tokens; fields support one size", fields.what,
                  one, size);
    one = std::max(one, size);
    layers.push_back(size > 0);
  }
  if (one == 0 || std::find(layers.begin(), layers.end(), 0) == layers.end()) layers.clear();
  fields.size.resolve(one > 0 ? std::optional(one) : std::nullopt);
  fields.layers.resolve(layers);
}

/// Of each of `count` layers; 0: it has none.
std::vector<int64_t> sizes_of(const std::optional<int64_t>& size,
                              const std::vector<int64_t>& chosen, const char* layers_field,
                              int64_t count) {
  std::vector<int64_t> sizes(static_cast<size_t>(count), size.value_or(0));
  VIADUCT_CHECK(ConfigError, chosen.empty() || chosen.size() == sizes.size(), "model.{}: {} for {}",
                layers_field, counted(static_cast<int64_t>(chosen.size()), "entry", "entries"),
                counted(count, "layer"));
  for (size_t i = 0; i < chosen.size(); ++i) sizes[i] *= chosen[i];
  return sizes;
}

}  // namespace

void take_architecture(ModelFields& fields, const ModelConfig& model) {
  fields.family.resolve(model.family);
  fields.num_layers.resolve(model.layers);
  fields.hidden_size.resolve(model.hidden);
  fields.ffn_hidden_size.resolve(model.feed_forward);
  fields.num_attention_heads.resolve(model.heads);
  fields.num_query_groups.resolve(model.kv_heads);
  fields.kv_channels.resolve(model.head_dim);
  fields.vocab_size.resolve(model.vocabulary);
  fields.max_position_embeddings.resolve(model.max_positions);
  fields.normalization.resolve(model.norm);
  fields.layernorm_epsilon.resolve(model.norm_eps);
  fields.layernorm_zero_centered_gamma.resolve(model.norm_weight_offset != 0);
  fields.layernorm_bias.resolve(model.norm_bias);
  fields.pre_sublayer_norm.resolve(model.input_norms);
  fields.post_sublayer_norm.resolve(model.output_norms);
  fields.parallel_block.resolve(model.parallel_block);
  fields.parallel_block_shared_norm.resolve(model.shared_norm);
  fields.qk_layernorm.resolve(model.qk_norm);
  fields.qk_layernorm_per_head.resolve(model.qk_norm_per_head);
  fields.qk_layernorm_after_rope.resolve(model.qk_norm_after_rotary);
  fields.qk_layernorm_own_weights.resolve(model.qk_norm_own_weights);
  fields.embedding_norm.resolve(model.embedding_norm);
  fields.qk_l2_norm.resolve(model.qk_l2_norm);
  fields.v_l2_norm.resolve(model.v_l2_norm);
  fields.full_attention_kv_channels.resolve(size_or_none(model.full.head_dim));
  fields.full_attention_num_query_groups.resolve(size_or_none(model.full.kv_heads));
  fields.full_attention_values_from_keys.resolve(model.full.values_from_keys);
  fields.block_output_scale.resolve(model.output_scale);
  take_latent(fields.latent, model.latent);
  fields.softmax_type.resolve(model.attention_sinks ? SoftmaxType::learnable
                                                    : SoftmaxType::vanilla);
  fields.activation_func_clamp_value.resolve(positive_or_none(model.activation_clamp));
  fields.glu_linear_offset.resolve(model.activation_offset);
  fields.moe_router_linear_bias.resolve(model.router_bias);
  fields.activation_func.resolve(model.xielu ? FeedForwardActivation::xielu
                                             : feed_forward_activation(model.activation));
  fields.gated_linear_unit.resolve(model.gated);
  take_moe(fields.moe, model.moe);
  fields.mtp_num_layers.resolve(model.mtp_layers > 0 ? std::optional(model.mtp_layers)
                                                     : std::nullopt);
  fields.position_embedding_type.resolve(model.positions);
  take_encoder(fields.encoder, model);
  fields.vision.reads = model.vision.any();
  if (model.positions == PositionKind::linear_bias) {
    fields.alibi_bias_max.resolve(model.linear_bias_exponent);
    fields.alibi_scaled.resolve(model.linear_bias_scaled);
  }
  if (model.positions == PositionKind::rotary) {
    fields.rotary_base.resolve(model.rotary.base);
    fields.rotary_percent.resolve(model.latent.any() ? 1.0
                                                     : static_cast<double>(model.rotary.width) /
                                                           static_cast<double>(std::max<int64_t>(
                                                               model.rotary_head_dim(), 1)));
    fields.rotary_interleaved.resolve(model.rotary.interleaved);
    fields.rope_scaling.resolve(value_of_json(families::write_rope_scaling(model.rotary)));
    fields.window_rotary_base.resolve(positive_or_none(model.window_rotary_base));
    fields.no_rope_freq.resolve(model.no_rope);
    const AttentionTemperature& temperature = model.no_rope_temperature;
    fields.no_rope_temperature_scale.resolve(positive_or_none(temperature.scale));
    if (temperature.any()) fields.no_rope_temperature_length.resolve(temperature.length);
  }
  // A user's `add_bias_linear` applies to the biases that were not given separately.
  if (fields.add_bias_linear.is_auto()) {
    fields.add_qkv_bias.resolve(model.qkv_bias);
    fields.add_attention_output_bias.resolve(model.projection_bias);
    fields.add_mlp_bias.resolve(model.up_bias);
  }
  fields.add_head_bias.resolve(model.head_bias);
  fields.share_embeddings_and_output_weights.resolve(model.tied_embeddings);
  take_sizes({"sliding windows", fields.window_size, fields.window_layers}, model.windows);
  take_sizes({"chunks", fields.attention_chunk_size, fields.attention_chunk_layers}, model.chunks);
  fields.softmax_scale.resolve(positive_or_none(model.attention_scale));
  fields.attention_temperature_scale.resolve(positive_or_none(model.temperature.scale));
  fields.attention_temperature_length.resolve(
      model.temperature.any() ? std::optional(model.temperature.length) : std::nullopt);
  fields.attn_logit_softcapping.resolve(positive_or_none(model.attention_softcap));
  fields.final_logit_softcapping.resolve(positive_or_none(model.logit_softcap));
  fields.embedding_multiplier.resolve(model.embedding_scale);
  fields.residual_multiplier.resolve(model.residual_scale);
  fields.logit_multiplier.resolve(model.logit_scale);
  fields.hidden_dropout.resolve(model.residual_dropout);
  fields.embedding_dropout.resolve(model.embedding_dropout);
  fields.attention_dropout.resolve(model.attention_dropout);
  fields.init_method_std.resolve(model.init_std);
}

void take_hf_config(ModelFields& fields) {
  if (!fields.hf_config) return;
  std::filesystem::path path = find_model(*fields.hf_config).value_or(*fields.hf_config);
  if (std::filesystem::is_directory(path)) path /= "config.json";
  constexpr size_t kMostBytes = size_t{16} << 20;
  take_architecture(fields, read_hf_config(read_file(path, kMostBytes), path.string()));
}

ModelConfig to_model_config(const ModelFields& fields, const ModelConfig& base) {
  ModelConfig model = base;
  model.family = fields.family.value();
  model.layers = fields.num_layers.value();
  model.hidden = fields.hidden_size.value();
  model.feed_forward = fields.ffn_hidden_size.value();
  model.heads = fields.num_attention_heads.value();
  model.kv_heads = fields.num_query_groups.value();
  model.head_dim = fields.kv_channels.value();
  model.vocabulary = fields.vocab_size.value();
  model.max_positions = fields.max_position_embeddings.value();
  model.norm = fields.normalization.value();
  model.norm_eps = fields.layernorm_epsilon.value();
  model.norm_weight_offset = fields.layernorm_zero_centered_gamma.value() ? 1 : 0;
  model.norm_bias = fields.layernorm_bias.value();
  model.input_norms = fields.pre_sublayer_norm.value();
  model.output_norms = fields.post_sublayer_norm.value();
  model.parallel_block = fields.parallel_block.value();
  model.shared_norm = fields.parallel_block_shared_norm.value();
  model.qk_norm = fields.qk_layernorm.value();
  model.qk_norm_per_head = fields.qk_layernorm_per_head.value();
  model.qk_norm_after_rotary = fields.qk_layernorm_after_rope.value();
  model.qk_norm_own_weights = fields.qk_layernorm_own_weights.value();
  model.embedding_norm = fields.embedding_norm.value();
  model.qk_l2_norm = fields.qk_l2_norm.value();
  model.v_l2_norm = fields.v_l2_norm.value();
  model.full = {.head_dim = fields.full_attention_kv_channels.value().value_or(0),
                .kv_heads = fields.full_attention_num_query_groups.value().value_or(0),
                .values_from_keys = fields.full_attention_values_from_keys.value()};
  model.output_scale = fields.block_output_scale.value();
  model.latent = to_latent_sizes(fields.latent);
  if (model.latent.norm_eps == model.norm_eps) model.latent.norm_eps = 0;
  model.attention_sinks = fields.softmax_type.value() == SoftmaxType::learnable;
  model.activation_clamp = fields.activation_func_clamp_value.value().value_or(0);
  model.activation_offset = fields.glu_linear_offset.value();
  model.router_bias = fields.moe_router_linear_bias.value();
  model.xielu = fields.activation_func.value() == FeedForwardActivation::xielu;
  model.activation = activation_kind(fields.activation_func.value()).value_or(ActivationKind::silu);
  model.gated = fields.gated_linear_unit.value();
  model.moe = to_moe_config(fields.moe, model.layers, model.feed_forward);
  if (model.moe.any()) model.moe.folder_coefficient = base.moe.folder_coefficient;
  model.mtp_layers = fields.mtp_num_layers.value().value_or(0);
  model.mtp_loss_scale = fields.mtp_loss_scaling_factor;
  model.positions = fields.position_embedding_type.value();
  set_encoder(fields.encoder, model);
  model.linear_bias_exponent = fields.alibi_bias_max.value();
  model.linear_bias_scaled =
      model.positions == PositionKind::linear_bias && fields.alibi_scaled.value();
  const bool rotates = model.positions == PositionKind::rotary;
  model.rotary = rotates ? rotary_of(fields) : RotarySpec{};
  model.window_rotary_base = rotates ? fields.window_rotary_base.value().value_or(0) : 0;
  model.no_rope = rotates ? fields.no_rope_freq.value() : std::vector<int64_t>{};
  model.no_rope_temperature = {};
  if (const auto& scale = fields.no_rope_temperature_scale.value(); scale && rotates)
    model.no_rope_temperature =
        temperature_without_rotary(*scale, fields.no_rope_temperature_length.value());
  model.qkv_bias = fields.add_qkv_bias.value();
  model.projection_bias = fields.add_attention_output_bias.value();
  model.up_bias = model.down_bias = fields.add_mlp_bias.value();
  model.head_bias = fields.add_head_bias.value();
  model.tied_embeddings = fields.share_embeddings_and_output_weights.value();
  model.windows = sizes_of(fields.window_size.value(), fields.window_layers.value(),
                           "window_layers", model.layers);
  model.chunks.clear();
  if (fields.attention_chunk_size.value()) {
    model.chunks =
        sizes_of(fields.attention_chunk_size.value(), fields.attention_chunk_layers.value(),
                 "attention_chunk_layers", model.layers);
  }
  model.attention_scale = fields.softmax_scale.value().value_or(
      model.latent.any() ? families::latent_attention_scale(model)
                         : 1 / std::sqrt(static_cast<double>(model.head_dim)));
  model.temperature = temperature_of(fields);
  model.attention_softcap = fields.attn_logit_softcapping.value().value_or(0);
  model.logit_softcap = fields.final_logit_softcapping.value().value_or(0);
  model.embedding_scale = fields.embedding_multiplier.value();
  model.residual_scale = fields.residual_multiplier.value();
  model.logit_scale = fields.logit_multiplier.value();
  // auto: of models outside of runs (run/attention_backend.h).
  const auto backend = fields.attention_backend.value_or(AttentionBackend::flash);
  model.flash_attention = backend != AttentionBackend::unfused;
  model.library_attention = backend == AttentionBackend::fused;
  model.masked_softmax_fusion = fields.masked_softmax_fusion;
  model.softmax_in_fp32 = fields.attention_softmax_in_fp32;
  model.rope_fusion = fields.apply_rope_fusion;
  model.residual_dropout = fields.hidden_dropout.value();
  model.embedding_dropout = fields.embedding_dropout.value();
  model.attention_dropout = fields.attention_dropout.value();
  model.init_std = fields.init_method_std.value();
  if (model.vision.any()) set_vision(fields.vision, model.vision);
  check_model_config(model);
  return model;
}

void check_rotary_order(const ModelConfig& weights, const ModelConfig& model) {
  const auto order = [](const ModelConfig& config) {
    return config.rotary.interleaved ? "neighbours" : "halves";
  };
  VIADUCT_CHECK(ConfigError,
                model.positions != PositionKind::rotary ||
                    weights.rotary.interleaved == model.rotary.interleaved,
                "model.rotary_interleaved: {}, but the weights that are read were trained with "
                "pairs of {} (expected {})",
                model.rotary.interleaved, order(weights), weights.rotary.interleaved);
}

void check_head(const ModelConfig& weights, const ModelConfig& model) {
  VIADUCT_CHECK(ConfigError, weights.tied_embeddings || !model.tied_embeddings,
                "model.share_embeddings_and_output_weights: true, but the weights that are read "
                "have a head of their own, which would be dropped (expected false)");
}

}  // namespace viaduct
