// What `auto` means in section `model`: the defaults of the family, then those of Llama.

#include "model/family.h"
#include "model/model_fields.h"

namespace viaduct {
namespace {

int64_t gated_width(int64_t hidden) {
  return (hidden * 8 / 3 + 63) / 64 * 64;
}

// Llama, and the default for every family.
void resolve_common(ModelFields& m) {
  m.normalization.resolve(NormKind::rms_norm);
  m.layernorm_epsilon.resolve(1e-5);
  m.layernorm_zero_centered_gamma.resolve(false);
  m.pre_sublayer_norm.resolve(true);
  m.post_sublayer_norm.resolve(false);
  m.layernorm_bias.resolve(true);
  m.parallel_block.resolve(false);
  m.parallel_block_shared_norm.resolve(false);
  m.embedding_norm.resolve(false);
  m.activation_func.resolve(FeedForwardActivation::silu);
  m.activation_func_clamp_value.resolve(std::nullopt);
  m.glu_linear_offset.resolve(0.0);
  m.gated_linear_unit.resolve(true);
  m.add_bias_linear.resolve(false);
  m.add_qkv_bias.resolve(m.add_bias_linear.value());
  m.add_attention_output_bias.resolve(m.add_bias_linear.value());
  m.add_mlp_bias.resolve(m.add_bias_linear.value());
  m.add_head_bias.resolve(false);
  m.moe.resolve();
  m.mtp_num_layers.resolve(std::nullopt);
  m.moe_router_linear_bias.resolve(false);
  m.latent.resolve();
  m.qk_layernorm.resolve(m.latent.multi_latent_attention.value());
  m.qk_layernorm_per_head.resolve(true);
  m.qk_layernorm_after_rope.resolve(false);
  m.qk_layernorm_own_weights.resolve(false);
  m.qk_l2_norm.resolve(false);
  m.v_l2_norm.resolve(false);
  m.full_attention_kv_channels.resolve(std::nullopt);
  m.full_attention_num_query_groups.resolve(std::nullopt);
  m.full_attention_values_from_keys.resolve(false);
  m.block_output_scale.resolve(false);
  m.window_size.resolve(std::nullopt);
  m.window_layers.resolve({});
  m.attention_chunk_size.resolve(std::nullopt);
  m.attention_chunk_layers.resolve({});
  m.attn_logit_softcapping.resolve(std::nullopt);
  m.final_logit_softcapping.resolve(std::nullopt);
  m.softmax_scale.resolve(std::nullopt);
  m.attention_temperature_scale.resolve(std::nullopt);
  m.attention_temperature_length.resolve(std::nullopt);
  m.softmax_type.resolve(SoftmaxType::vanilla);
  m.position_embedding_type.resolve(PositionKind::rotary);
  m.alibi_bias_max.resolve(8.0);
  m.alibi_scaled.resolve(false);
  m.rotary_base.resolve(10000.0);
  m.rotary_percent.resolve(1.0);
  m.rotary_interleaved.resolve(false);
  m.rope_scaling.resolve(Value{});
  m.window_rotary_base.resolve(std::nullopt);
  m.no_rope_freq.resolve({});
  m.no_rope_temperature_scale.resolve(std::nullopt);
  m.no_rope_temperature_length.resolve(8192);
  m.share_embeddings_and_output_weights.resolve(false);
  m.embedding_multiplier.resolve(1.0);
  m.residual_multiplier.resolve(1.0);
  m.logit_multiplier.resolve(1.0);
  m.hidden_dropout.resolve(0.0);
  m.embedding_dropout.resolve(m.hidden_dropout.value());
  m.attention_dropout.resolve(0.0);
  m.init_method_std.resolve(0.02);
}

void resolve_sizes(ModelFields& m) {
  if (m.latent.multi_latent_attention.value()) m.kv_channels.resolve(m.latent.head_dim());
  if (!m.hidden_size.is_auto()) {
    const int64_t hidden = m.hidden_size.value();
    m.ffn_hidden_size.resolve(m.gated_linear_unit.value() ? gated_width(hidden) : 4 * hidden);
    if (!m.num_attention_heads.is_auto())
      m.kv_channels.resolve(hidden / m.num_attention_heads.value());
  }
  if (!m.num_attention_heads.is_auto()) m.num_query_groups.resolve(m.num_attention_heads.value());
  if (!m.max_position_embeddings.is_auto()) m.seq_length.resolve(m.max_position_embeddings.value());
  if (!m.seq_length.is_auto()) m.max_position_embeddings.resolve(m.seq_length.value());
  m.encoder.resolve(m.seq_length);
}

}  // namespace

void ModelFields::resolve() {
  family.resolve("llama");
  // A name that no family has is reported with all other problems of the configuration.
  for (const ModelFamily& known : model_families()) {
    if (known.model_type == family.value() && known.resolve != nullptr) known.resolve(*this);
  }
  resolve_common(*this);
  resolve_sizes(*this);
}

std::vector<std::string> ModelFields::missing() const {
  std::vector<std::string> names;
  if (num_layers.is_auto()) names.emplace_back("model.num_layers");
  if (hidden_size.is_auto()) names.emplace_back("model.hidden_size");
  if (num_attention_heads.is_auto()) names.emplace_back("model.num_attention_heads");
  if (vocab_size.is_auto()) names.emplace_back("model.vocab_size");
  if (seq_length.is_auto()) names.emplace_back("model.seq_length");
  return names;
}

}  // namespace viaduct
