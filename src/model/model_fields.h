#pragma once
// Section `model` as written by the user, with Megatron's names. Fields of the architecture are
// `auto` until set by the user, a Hugging Face config, a checkpoint or the family's defaults; the
// layers are built from ModelConfig.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "model/encoder_fields.h"
#include "model/latent_fields.h"
#include "model/model_config.h"
#include "model/moe_fields.h"
#include "model/vision_fields.h"
#include "nn/feed_forward_activation.h"

namespace viaduct {

enum class SoftmaxType {
  vanilla,
  learnable,  // with a logit of each head that weights no value
};
constexpr auto choice_names(SoftmaxType) {
  return std::to_array<std::string_view>({"vanilla", "learnable"});
}

enum class AttentionBackend {
  flash,
  fused,    // a library where it can, flash elsewhere
  unfused,  // over a matrix of scores
};
constexpr auto choice_names(AttentionBackend) {
  return std::to_array<std::string_view>({"flash", "fused", "unfused"});
}

struct ModelFields {
  // Source of the architecture.
  Auto<std::string> family;
  std::optional<std::string> hf_config;

  // Sizes.
  Auto<int64_t> num_layers, hidden_size, ffn_hidden_size;
  Auto<int64_t> num_attention_heads, num_query_groups, kv_channels;
  Auto<int64_t> seq_length, max_position_embeddings;
  Auto<int64_t> vocab_size;
  int64_t make_vocab_size_divisible_by = 128;

  // Norms and the feed-forward.
  Auto<NormKind> normalization;
  Auto<double> layernorm_epsilon;
  Auto<bool> layernorm_zero_centered_gamma, layernorm_bias;
  Auto<bool> pre_sublayer_norm, post_sublayer_norm;
  Auto<bool> parallel_block, parallel_block_shared_norm;
  Auto<bool> embedding_norm;
  Auto<bool> block_output_scale;
  Auto<FeedForwardActivation> activation_func;
  Auto<bool> gated_linear_unit;
  Auto<std::optional<double>> activation_func_clamp_value;
  Auto<double> glu_linear_offset;

  // Biases.
  Auto<bool> add_bias_linear;
  Auto<bool> add_qkv_bias, add_attention_output_bias, add_mlp_bias, add_head_bias;

  // Attention.
  Auto<bool> qk_layernorm, qk_layernorm_per_head, qk_layernorm_after_rope, qk_layernorm_own_weights;
  LatentFields latent;
  Auto<std::optional<int64_t>> window_size;
  Auto<std::vector<int64_t>> window_layers;
  Auto<std::optional<int64_t>> attention_chunk_size;
  Auto<std::vector<int64_t>> attention_chunk_layers;
  Auto<std::optional<double>> attn_logit_softcapping, final_logit_softcapping;
  Auto<std::optional<double>> softmax_scale;
  Auto<std::optional<double>> attention_temperature_scale;
  Auto<std::optional<int64_t>> attention_temperature_length;
  Auto<SoftmaxType> softmax_type;
  Auto<bool> qk_l2_norm, v_l2_norm;
  Auto<std::optional<int64_t>> full_attention_kv_channels, full_attention_num_query_groups;
  Auto<bool> full_attention_values_from_keys;
  Auto<AttentionBackend> attention_backend;
  bool masked_softmax_fusion = true;
  bool attention_softmax_in_fp32 = true;

  Auto<std::optional<int64_t>> mtp_num_layers;
  double mtp_loss_scaling_factor = 0.1;

  MoeFields moe;
  Auto<bool> moe_router_linear_bias;

  // Positions.
  Auto<PositionKind> position_embedding_type;
  Auto<double> alibi_bias_max;
  Auto<bool> alibi_scaled;
  EncoderFields encoder;
  Auto<double> rotary_base, rotary_percent;
  Auto<bool> rotary_interleaved;
  Auto<Value> rope_scaling;
  Auto<std::optional<double>> window_rotary_base;
  Auto<std::vector<int64_t>> no_rope_freq;
  Auto<std::optional<double>> no_rope_temperature_scale;
  Auto<int64_t> no_rope_temperature_length;
  bool apply_rope_fusion = true;

  VisionFields vision;

  // Embeddings.
  Auto<bool> share_embeddings_and_output_weights;
  Auto<double> embedding_multiplier, residual_multiplier, logit_multiplier;

  // Training.
  Auto<double> hidden_dropout, embedding_dropout, attention_dropout;
  Auto<double> init_method_std;
  bool calculate_per_token_loss = true;

  /// Replaces every remaining `auto` by the family's default. Sizes without a default (num_layers,
  /// hidden_size, num_attention_heads, vocab_size, seq_length) stay `auto` if not given; `missing`
  /// lists them.
  void resolve();
  std::vector<std::string> missing() const;
};

FieldGroup model_fields(ModelFields& config);

}  // namespace viaduct
