// Fields of experts that have no effect in a layout, with a recipe, or where nothing is logged.
// What the architecture alone says is in model/moe_fields.cpp.

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "run/no_effect_rules.h"

namespace viaduct {
namespace {

/// Routers read activations anyway where these have the format.
std::string same_router_format(const RunConfig& c, const ConfigOutcome&) {
  const DType activation = precision_recipe(c.mixed_precision).activation;
  const auto& format = c.model.moe.moe_router_dtype;
  return reason_if(
      activation == DType::f64 || (activation == DType::f32 && format == NumberFormat::fp32),
      stated("mixed_precision.recipe", c.mixed_precision.recipe) +
          ": activations have this format, or a wider one");
}

/// A rank's limit above all choices that tokens can have among its experts.
std::string no_full_rank(const RunConfig& c, const ConfigOutcome&) {
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
  return c.model.moe.moe_expert_capacity_factor ? "" : no_full_rank(c, outcome);
}

std::string no_tensorboard(const RunConfig& c, const ConfigOutcome&) {
  if (c.model.moe.experts() == 0) return "model.num_moe_experts = null";
  const auto& folder = c.logger.tensorboard_dir;
  return reason_if(!folder.is_auto() && !folder.value(), "logger.tensorboard_dir is null");
}

std::string one_expert_rank(const RunConfig& c, const ConfigOutcome&) {
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
      {{"model.moe_token_dispatcher_type", "model.moe_shared_expert_overlap"}, one_expert_rank},
      {{"model.moe_flex_dispatcher_backend"}, not_flex},
      {{"model.moe_router_dtype"}, same_router_format},
      {{"model.moe_token_drop_policy"}, no_capacity},
      {{"model.moe_expert_rank_capacity_factor"}, no_full_rank},
      {{"logger.moe_per_layer_logging"}, no_tensorboard},
  };
  return kRules;
}

}  // namespace viaduct
