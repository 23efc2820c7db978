// Fields of experts that have no effect.

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "run/no_effect_rules.h"

namespace viaduct {
namespace {

std::string no_experts(const RunConfig& c, const ConfigOutcome&) {
  return reason_if(c.model.moe.experts() == 0, "model.num_moe_experts = null");
}

/// Routers read activations anyway where these have the format.
std::string same_router_format(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  const DType activation = precision_recipe(c.mixed_precision).activation;
  const auto& format = c.model.moe.moe_router_dtype;
  return reason_if(
      activation == DType::f64 || (activation == DType::f32 && format == NumberFormat::fp32),
      stated("mixed_precision.recipe", c.mixed_precision.recipe) +
          ": activations have this format, or a wider one");
}

std::string no_balancing(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  if (c.model.moe.balances_by(BalanceKind::sinkhorn) ||
      c.model.moe.balances_by(BalanceKind::quantile_balancing))
    return {};
  const std::vector<double>& coefficients = c.model.moe.moe_aux_loss_coeff.values();
  return reason_if(
      std::ranges::all_of(coefficients, [](double coefficient) { return coefficient == 0; }),
      "model.moe_aux_loss_coeff = 0");
}

std::string no_balancing_loss(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(c.model.moe.balances_by(BalanceKind::none),
                   "model.moe_router_load_balancing_type = none");
}

/// A rank's limit above all choices that tokens can have among its experts.
std::string no_full_rank(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  const MoeFields& moe = c.model.moe;
  const int64_t ep = c.parallel.expert_model_parallel_size, k = moe.moe_router_topk.value();
  const int64_t most = std::min(k, moe.experts() / ep);  // choices of a token
  const double share = static_cast<double>(k) / static_cast<double>(ep);
  return reason_if(
      moe.moe_expert_rank_capacity_factor.value_or(0) * share >= static_cast<double>(most),
      fmt::format("model.moe_expert_rank_capacity_factor: tokens have at most {} times an equal "
                  "share of their choices among the {} of a rank",
                  static_cast<double>(most) / share, counted(moe.experts() / ep, "expert")));
}

std::string no_capacity(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  const MoeFields& moe = c.model.moe;
  if (moe.moe_expert_capacity_factor) return {};
  if (moe.moe_expert_rank_capacity_factor) return no_full_rank(c, outcome);
  return "model.moe_expert_capacity_factor and moe_expert_rank_capacity_factor are null";
}

std::string no_load_bias(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  if (c.model.moe.balances_by(BalanceKind::quantile_balancing))
    return "model.moe_router_load_balancing_type = quantile_balancing sets the bias";
  return reason_if(!c.model.moe.moe_router_enable_expert_bias.value(),
                   "model.moe_router_enable_expert_bias = false");
}

std::string no_normalization(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(c.model.moe.moe_router_topk.value() == 1, "model.moe_router_topk = 1");
}

std::string no_quantile(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(!c.model.moe.balances_by(BalanceKind::quantile_balancing),
                   "model.moe_router_load_balancing_type is not quantile_balancing");
}

std::string no_tensorboard(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  const auto& folder = c.logger.tensorboard_dir;
  return reason_if(!folder.is_auto() && !folder.value(), "logger.tensorboard_dir is null");
}

std::string one_expert_rank(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = no_experts(c, outcome);
  if (!reason.empty()) return reason;
  return reason_if(
      c.parallel.expert_model_parallel_size * c.parallel.expert_tensor() == 1,
      "model.expert_model_parallel_size · expert_tensor_parallel_size = 1: no tokens are "
      "sent");
}

std::string not_flex(const RunConfig& c, const ConfigOutcome& outcome) {
  const std::string reason = one_expert_rank(c, outcome);
  if (!reason.empty()) return reason;
  const TokenDispatcher dispatcher = c.model.moe.moe_token_dispatcher_type;
  return reason_if(dispatcher != TokenDispatcher::flex,
                   stated("model.moe_token_dispatcher_type", dispatcher));
}

}  // namespace

const std::vector<NoEffectRule>& experts_without_effect() {
  static const std::vector<NoEffectRule> kRules{
      {{"model.moe_ffn_hidden_size",
        "model.moe_layer_freq",
        "model.moe_shared_expert_intermediate_size",
        "model.moe_shared_expert_gate",
        "model.moe_router_topk",
        "model.moe_router_score_function",
        "model.moe_router_pre_softmax",
        "model.moe_router_sparsemixer_eps",
        "model.moe_router_topk_scaling_factor",
        "model.moe_router_num_groups",
        "model.moe_router_group_topk",
        "model.moe_router_group_score_topk",
        "model.moe_router_enable_expert_bias",
        "model.moe_apply_probs_on_input",
        "model.moe_z_loss_coeff",
        "model.moe_input_jitter_eps",
        "model.moe_router_force_load_balancing",
        "model.moe_expert_capacity_factor",
        "model.moe_pad_expert_input_to_capacity",
        "model.moe_dispatch_fwd_dtype",
        "model.moe_combine_bwd_dtype",
        "model.moe_router_padding_for_quantization"},
       no_experts},
      {{"model.moe_token_dispatcher_type", "model.moe_shared_expert_overlap"}, one_expert_rank},
      {{"model.moe_flex_dispatcher_backend"}, not_flex},
      {{"model.moe_router_dtype"}, same_router_format},
      {{"model.moe_token_drop_policy"}, no_capacity},
      {{"model.moe_expert_rank_capacity_factor"}, no_full_rank},
      {{"model.moe_router_norm_topk_prob"}, no_normalization},
      {{"model.moe_router_bias_update_rate"}, no_load_bias},
      {{"model.moe_router_load_balancing_type"}, no_balancing},
      {{"model.moe_router_qb_num_bins"}, no_quantile},
      {{"logger.moe_per_layer_logging"}, no_tensorboard},
      {{"model.moe_aux_loss_coeff"}, no_balancing_loss},
  };
  return kRules;
}

}  // namespace viaduct
