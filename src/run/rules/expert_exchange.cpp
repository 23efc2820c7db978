// How tokens reach the ranks of their experts, and how many of them.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "base/units.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Where tokens are gathered, all gathering ranks have the same number in each micro-batch.
void validate_gathering(const RunConfig& config, Problems& problems) {
  if (config.model.moe.moe_token_dispatcher_type != TokenDispatcher::allgather) return;
  if (config.pipeline.variable_seq_lengths) {
    problems.add(
        "model.moe_token_dispatcher_type: allgather needs one shape for the whole run, but "
        "model.variable_seq_lengths is true; nearest: alltoall");
  }
  const int cp = config.parallel.context_parallel_size;
  if (const std::string cause = cause_of_documents(config.dataset); !cause.empty() && cp > 1) {
    problems.add(
        "model.moe_token_dispatcher_type: allgather needs the same number of tokens on every rank, "
        "but documents ({}) are padded for context_parallel_size = {}; nearest: alltoall",
        cause, cp);
  }
}

/// The divisor of `number` next to `value`, the smaller of two.
int nearest_part(int value, int number) {
  int best = 1;
  for (int part = 1; part <= number; ++part)
    if (number % part == 0 && std::abs(part - value) < std::abs(best - value)) best = part;
  return best;
}

/// A limit on what a rank gets belongs to the exchanges of flex, as in Megatron.
void validate_rank_capacity(const RunConfig& config, Problems& problems) {
  const MoeFields& moe = config.model.moe;
  const auto& factor = moe.moe_expert_rank_capacity_factor;
  if (!factor) return;
  if (moe.moe_token_dispatcher_type != TokenDispatcher::flex) {
    const std::string_view found = choice_name(moe.moe_token_dispatcher_type);
    problems.add(
        "model.moe_expert_rank_capacity_factor: {} needs moe_token_dispatcher_type=flex, found {}; "
        "nearest: flex, or with {} moe_expert_capacity_factor, the limit of an expert",
        *factor, found, found);
  } else if (moe.moe_flex_dispatcher_backend == FlexBackend::deepep) {
    problems.add(
        "model.moe_expert_rank_capacity_factor: {} with moe_flex_dispatcher_backend = deepep, "
        "which has no limit of a rank; nearest: hybridep",
        *factor);
  }
}

/// Sending by domain, where it is chosen explicitly, and formats of messages.
void validate_flex(const RunConfig& config, Problems& problems) {
  const MoeFields& moe = config.model.moe;
  for (const auto& [field, format] :
       {std::pair{"moe_dispatch_fwd_dtype", moe.moe_dispatch_fwd_dtype},
        std::pair{"moe_combine_bwd_dtype", moe.moe_combine_bwd_dtype}}) {
    if (!format) continue;
    if (moe.moe_token_dispatcher_type != TokenDispatcher::flex) {
      problems.add("model.{}: {} needs moe_token_dispatcher_type=flex, found {}", field,
                   choice_name(*format), choice_name(moe.moe_token_dispatcher_type));
    }
    if (config.mixed_precision.recipe == RecipeName::fp64)
      problems.add(
          "model.{}: {} with mixed_precision.recipe = fp64, whose activations have no "
          "quantized form; expected null",
          field, choice_name(*format));
  }
  if (moe.moe_token_dispatcher_type != TokenDispatcher::flex ||
      moe.moe_flex_dispatcher_backend != FlexBackend::hierarchical)
    return;
  const int ep = config.parallel.expert_model_parallel_size, etp = config.parallel.expert_tensor();
  if (moe.moe_pad_expert_input_to_capacity) {
    problems.add(
        "model.moe_flex_dispatcher_backend: hierarchical with moe_pad_expert_input_to_capacity = "
        "true: a token is sent once for each domain of its experts, and their number is not the "
        "same in every step; nearest: flat");
  }
  const auto& domain = config.dist.nvlink_domain_size;
  if (!domain) {
    problems.add(
        "model.moe_flex_dispatcher_backend: hierarchical needs dist.nvlink_domain_size (the ranks "
        "of a domain), which is null");
  } else if (ep * etp % *domain != 0 || *domain % etp != 0) {
    problems.add(
        "dist.nvlink_domain_size: {} with moe_flex_dispatcher_backend = hierarchical: expected a "
        "divisor of expert_model_parallel_size · expert_tensor_parallel_size = {} · {} that is a "
        "multiple of {}; nearest: {}",
        *domain, ep, etp, etp, etp * nearest_part(*domain / etp, ep));
  }
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

void refuse_expert_exchange(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  if (config.model.moe.experts() == 0) return;
  validate_gathering(config, problems);
  validate_flex(config, problems);
  validate_rank_capacity(config, problems);
}

}  // namespace

Topic expert_exchange_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.moe_token_dispatcher_type", "model.moe_shared_expert_overlap"}, one_expert_rank},
      {{"model.moe_flex_dispatcher_backend"}, not_flex},
      {{"model.moe_token_drop_policy"}, no_capacity},
      {{"model.moe_expert_rank_capacity_factor"}, no_full_rank},
  };
  return {refuse_expert_exchange, std::move(idle)};
}

}  // namespace viaduct
