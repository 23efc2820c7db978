#pragma once
// The fields of section `model` about mixtures of experts, with Megatron's names, and their
// conversion to what layers read (nn/moe/moe_config.h).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/auto.h"
#include "config/field.h"
#include "config/one_or_list.h"
#include "config/problems.h"
#include "nn/moe/moe_config.h"
#include "tensor/format_name.h"

namespace viaduct {

/// What balances the load of experts (`moe_router_load_balancing_type`).
enum class BalanceKind {
  aux_loss,
  seq_aux_loss,
  global_aux_loss,
  sinkhorn,
  quantile_balancing,
  none,
};
constexpr auto choice_names(BalanceKind) {
  return std::to_array<std::string_view>(
      {"aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "quantile_balancing", "none"});
}

enum class TokenDispatcher { alltoall, allgather, flex };
constexpr auto choice_names(TokenDispatcher) {
  return std::to_array<std::string_view>({"alltoall", "allgather", "flex"});
}

/// Of the dispatcher `flex`. The last three are names of other frameworks' kernels.
enum class FlexBackend { flat, hierarchical, deepep, hybridep, ncclep };
constexpr auto choice_names(FlexBackend) {
  return std::to_array<std::string_view>({"flat", "hierarchical", "deepep", "hybridep", "ncclep"});
}

/// Of tokens and gradients on their way, where it is not that of activations.
enum class SentFormat { mxfp8 };
constexpr auto choice_names(SentFormat) {
  return std::to_array<std::string_view>({"mxfp8"});
}

struct MoeFields {
  // Architecture.
  Auto<std::optional<int64_t>> num_moe_experts, moe_ffn_hidden_size;
  Auto<OneOrList<int64_t>> moe_layer_freq;
  Auto<std::optional<int64_t>> moe_shared_expert_intermediate_size;
  Auto<bool> moe_shared_expert_gate;
  Auto<int64_t> moe_router_topk;
  Auto<ScoreFunction> moe_router_score_function;
  Auto<bool> moe_router_pre_softmax;
  Auto<std::optional<double>> moe_router_sparsemixer_eps;
  Auto<std::optional<double>> moe_router_topk_scaling_factor;
  Auto<std::optional<int64_t>> moe_router_num_groups, moe_router_group_topk;
  Auto<std::optional<int64_t>> moe_router_group_score_topk;
  Auto<bool> moe_router_norm_topk_prob;
  Auto<bool> moe_router_enable_expert_bias;
  Auto<bool> moe_apply_probs_on_input;

  // Training.
  std::optional<NumberFormat> moe_router_dtype;
  double moe_router_bias_update_rate = 1e-3;
  OneOrList<BalanceKind> moe_router_load_balancing_type = BalanceKind::aux_loss;
  int64_t moe_router_qb_num_bins = 1000;
  OneOrList<double> moe_aux_loss_coeff;  // one for each type
  std::optional<double> moe_z_loss_coeff;
  std::optional<double> moe_input_jitter_eps;
  std::optional<double> moe_expert_capacity_factor, moe_expert_rank_capacity_factor;
  DropPolicy moe_token_drop_policy = DropPolicy::probabilities;
  bool moe_pad_expert_input_to_capacity = false;
  bool moe_router_padding_for_quantization = false;
  bool moe_router_force_load_balancing = false;
  bool moe_shared_expert_overlap = false;
  TokenDispatcher moe_token_dispatcher_type = TokenDispatcher::alltoall;
  std::optional<FlexBackend> moe_flex_dispatcher_backend;
  std::optional<SentFormat> moe_dispatch_fwd_dtype, moe_combine_bwd_dtype;

  /// The number of experts, 0 without any or where it is not known yet.
  int64_t experts() const;
  /// Whether moe_router_load_balancing_type has `kind`.
  bool balances_by(BalanceKind kind) const;
  /// Replaces every remaining `auto` by the default of models without experts, or of Mixtral.
  void resolve();
};

/// Maximum experts of a layer.
inline constexpr double kMostExperts = 1 << 14;

void add_moe_fields(FieldGroup& group, MoeFields& fields);

/// Sets every field that is still `auto` to the value of an existing model.
void take_moe(MoeFields& fields, const MoeConfig& moe);

/// From resolved fields. `feed_forward`: the size of a dense layer's, the default of an expert's.
MoeConfig to_moe_config(const MoeFields& fields, int64_t layers, int64_t feed_forward);

/// Every problem of the lists of balancing types and their coefficients.
void check_balancing(const MoeFields& fields, Problems& problems);

/// Every problem of the sizes and rules of `moe` in a model of `layers` layers; texts name the
/// fields.
void check_moe_config(const MoeConfig& moe, int64_t layers, Problems& problems);

}  // namespace viaduct
