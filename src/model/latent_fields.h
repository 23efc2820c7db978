#pragma once
// The fields of section `model` about multi-head latent attention, with Megatron's names, and their
// conversion to what layers are built from.

#include <optional>

#include "config/auto.h"
#include "config/field.h"
#include "model/model_config.h"

namespace viaduct {

struct LatentFields {
  Auto<bool> multi_latent_attention;
  Auto<std::optional<int64_t>> q_lora_rank;
  Auto<int64_t> kv_lora_rank, qk_head_dim, qk_pos_emb_head_dim, v_head_dim;
  Auto<std::optional<double>> latent_layernorm_epsilon;

  /// Replaces every remaining `auto` by Megatron's default.
  void resolve();
  /// Of resolved fields: the size of a head of queries and keys.
  int64_t head_dim() const { return qk_head_dim.value() + qk_pos_emb_head_dim.value(); }
};

void add_latent_fields(FieldGroup& group, LatentFields& fields);

/// Sets every field that is still `auto` to the value of an existing model.
void take_latent(LatentFields& fields, const LatentSizes& sizes);

/// Of resolved fields; all 0 without latent attention.
LatentSizes to_latent_sizes(const LatentFields& fields);

}  // namespace viaduct
