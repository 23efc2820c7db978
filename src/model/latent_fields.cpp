#include "model/latent_fields.h"

namespace viaduct {
namespace {

constexpr double kMostRank = 1 << 20, kMostDim = 1 << 14;

}  // namespace

void LatentFields::resolve() {
  multi_latent_attention.resolve(false);
  q_lora_rank.resolve(std::nullopt);
  kv_lora_rank.resolve(512);
  qk_head_dim.resolve(128);
  qk_pos_emb_head_dim.resolve(64);
  v_head_dim.resolve(128);
  latent_layernorm_epsilon.resolve(std::nullopt);
}

void add_latent_fields(FieldGroup& group, LatentFields& fields) {
  group
      .field("multi_latent_attention", fields.multi_latent_attention,
             "Multi-head latent attention (DeepSeek): keys and values of all heads come from one "
             "compressed vector of a token, which is what generation keeps of it.")
      .constraint(
          "needs rope, RMSNorm, qk_layernorm and num_query_groups=num_attention_heads; no "
          "add_qkv_bias, no post_sublayer_norm")
      .on_resume(resume::other_shapes);
  group.idle([&fields] {
    return reason_if(!fields.multi_latent_attention.value(),
                     "model.multi_latent_attention = false");
  });
  group
      .field("q_lora_rank", fields.q_lora_rank,
             "multi_latent_attention: size of the compressed vector that queries come from; null: "
             "they come from the stream.")
      .range(1, kMostRank)
      .on_resume(resume::other_shapes);
  group
      .field(
          "kv_lora_rank", fields.kv_lora_rank,
          "multi_latent_attention: size of the compressed vector that keys and values come from.")
      .range(1, kMostRank)
      .on_resume(resume::other_shapes);
  group
      .field("qk_head_dim", fields.qk_head_dim,
             "multi_latent_attention: dims of a head of queries and keys without positions.")
      .range(1, kMostDim)
      .on_resume(resume::other_shapes);
  group
      .field("qk_pos_emb_head_dim", fields.qk_pos_emb_head_dim,
             "multi_latent_attention: dims of a head of queries and keys with rotary positions; "
             "those of keys are shared by all heads.")
      .range(2, kMostDim)
      .constraint("even")
      .on_resume(resume::other_shapes);
  group.field("v_head_dim", fields.v_head_dim, "multi_latent_attention: dims of a head of values.")
      .range(1, kMostDim)
      .on_resume(resume::other_shapes);
  group
      .field("latent_layernorm_epsilon", fields.latent_layernorm_epsilon,
             "multi_latent_attention: epsilon of the norms on the compressed vectors; null: "
             "layernorm_epsilon. In Hugging Face's code of the DeepSeek families it is always "
             "1e-6, which is what auto means there.")
      .positive();
  group.idle({});
}

void take_latent(LatentFields& fields, const LatentSizes& sizes) {
  fields.multi_latent_attention.resolve(sizes.any());
  if (!sizes.any()) return;
  fields.q_lora_rank.resolve(sizes.q_rank > 0 ? std::optional(sizes.q_rank) : std::nullopt);
  fields.kv_lora_rank.resolve(sizes.kv_rank);
  fields.qk_head_dim.resolve(sizes.plain_dim);
  fields.qk_pos_emb_head_dim.resolve(sizes.rotary_dim);
  fields.v_head_dim.resolve(sizes.value_dim);
  fields.latent_layernorm_epsilon.resolve(sizes.norm_eps > 0 ? std::optional(sizes.norm_eps)
                                                             : std::nullopt);
}

LatentSizes to_latent_sizes(const LatentFields& fields) {
  if (!fields.multi_latent_attention.value()) return {};
  return {.q_rank = fields.q_lora_rank.value().value_or(0),
          .kv_rank = fields.kv_lora_rank.value(),
          .plain_dim = fields.qk_head_dim.value(),
          .rotary_dim = fields.qk_pos_emb_head_dim.value(),
          .value_dim = fields.v_head_dim.value(),
          .norm_eps = fields.latent_layernorm_epsilon.value().value_or(0)};
}

}  // namespace viaduct
