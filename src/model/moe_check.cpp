// What sizes and rules of a model with experts go together.

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "config/nearest_valid.h"
#include "model/moe_fields.h"

namespace viaduct {
namespace {

void check_groups(const MoeConfig& moe, Problems& problems) {
  const RoutingRule& routing = moe.routing;
  if ((routing.groups > 0) != (routing.group_topk > 0)) {
    problems.add(
        "model.moe_router_num_groups and moe_router_group_topk need each other, found {} "
        "and {}",
        routing.groups > 0 ? std::to_string(routing.groups) : "null",
        routing.group_topk > 0 ? std::to_string(routing.group_topk) : "null");
    return;
  }
  if (routing.groups == 0) {
    if (routing.group_best > 0) {
      problems.add(
          "model.moe_router_group_score_topk: {} needs moe_router_num_groups, which is null",
          routing.group_best);
    }
    return;
  }
  if (moe.experts % routing.groups != 0) {
    problems.add(
        "model.moe_router_num_groups: {} does not divide num_moe_experts = {}; nearest: "
        "{}",
        routing.groups, moe.experts, nearest_divisor(routing.groups, moe.experts));
    return;
  }
  const int64_t size = moe.experts / routing.groups, k = routing.topk;
  if (routing.group_best > size) {
    problems.add(
        "model.moe_router_group_score_topk: {} of the {} of a group (num_moe_experts = {}, "
        "moe_router_num_groups = {}); nearest: {}",
        routing.group_best, counted(size, "expert"), moe.experts, routing.groups, size);
  }
  const auto fits = [&](int64_t groups) {
    return groups <= routing.groups && (routing.group_best > 0 || k % groups == 0) &&
           groups * size >= k;
  };
  if (!fits(routing.group_topk)) {
    problems.add(
        "model.moe_router_group_topk: {} of {} of {} for moe_router_topk = {}: "
        "expected {} whose groups have at least that many experts; nearest: {}",
        routing.group_topk, counted(routing.groups, "group"), counted(size, "expert"), k,
        routing.group_best > 0 ? "a number" : "a divisor of it",
        nearest_valid(routing.group_topk, fits, routing.groups));
  }
}

/// Choices that are balanced otherwise are not dropped; `refuse` takes a field, its value and why.
template <class Refuse>
void check_no_limits(const MoeConfig& moe, const Refuse& refuse) {
  for (const auto& [field, factor] :
       {std::pair{"moe_expert_capacity_factor", moe.capacity_factor},
        std::pair{"moe_expert_rank_capacity_factor", moe.rank_capacity_factor}}) {
    if (factor > 0)
      refuse(field, std::to_string(factor), "whose experts have about equal load; expected null");
  }
}

/// What a balanced choice by scaled logits goes with.
void check_sinkhorn(const MoeConfig& moe, Problems& problems) {
  if (!moe.sinkhorn) return;
  const RoutingRule& routing = moe.routing;
  const auto refuse = [&](const char* field, std::string_view found, const std::string& needs) {
    problems.add("model.{}: {} with moe_router_load_balancing_type=sinkhorn, {}", field, found,
                 needs);
  };
  if (routing.topk == 1 && routing.score != ScoreFunction::sigmoid) {
    refuse("moe_router_score_function", choice_name(routing.score),
           "whose weight of one expert (moe_router_topk=1) is its sigmoid; expected sigmoid");
  }
  if (routing.topk > 1 && (routing.score != ScoreFunction::softmax || !routing.pre_softmax)) {
    refuse("moe_router_pre_softmax", routing.pre_softmax ? "true" : "false",
           "whose weights of several experts are a softmax over all of them; expected true and "
           "moe_router_score_function=softmax");
  }
  if (!moe.balance_losses.empty()) {
    refuse("moe_aux_loss_coeff", fmt::format("{}", moe.balance_losses.front().coefficient),
           "which balances without a loss; expected 0");
  }
  if (routing.groups > 0) {
    refuse("moe_router_num_groups", std::to_string(routing.groups),
           "which chooses from all experts; expected null");
  }
  if (moe.load_bias) {
    refuse("moe_router_enable_expert_bias", "true",
           "which has a bias of its own in each micro-batch; expected false");
  }
  check_no_limits(moe, refuse);
}

/// What a bias that is set by quantiles of scores goes with.
void check_quantile(const MoeConfig& moe, Problems& problems) {
  if (moe.quantile_bins == 0) return;
  const RoutingRule& routing = moe.routing;
  const auto refuse = [&](const char* field, std::string_view found, const std::string& needs) {
    problems.add("model.{}: {} with moe_router_load_balancing_type=quantile_balancing, {}", field,
                 found, needs);
  };
  if (routing.score != ScoreFunction::sigmoid) {
    refuse("moe_router_score_function", choice_name(routing.score),
           "whose bins hold scores from 0 to 1; expected sigmoid");
  }
  if (!moe.load_bias)
    refuse("moe_router_enable_expert_bias", "false", "which sets this bias; expected true");
  if (routing.topk >= moe.experts && routing.topk <= kMostChosenExperts && moe.experts > 1) {
    refuse("moe_router_topk", std::to_string(routing.topk),
           "which compares with the next best of num_moe_experts = " + std::to_string(moe.experts) +
               " experts; nearest: " + std::to_string(moe.experts - 1));
  }
  if (moe.experts == 1)
    refuse("num_moe_experts", "1", "which balances several experts; expected at least 2");
  if (!moe.balance_losses.empty()) {
    refuse("moe_aux_loss_coeff", fmt::format("{}", moe.balance_losses.front().coefficient),
           "which balances without a loss; expected 0");
  }
  if (routing.groups > 1) {
    refuse("moe_router_num_groups", std::to_string(routing.groups),
           "whose next best score is that of all experts; expected null or 1");
  }
  check_no_limits(moe, refuse);
}

bool is_loss(BalanceKind kind) {
  return kind == BalanceKind::aux_loss || kind == BalanceKind::seq_aux_loss ||
         kind == BalanceKind::global_aux_loss;
}

}  // namespace

void check_balancing(const MoeFields& fields, Problems& problems) {
  const std::vector<BalanceKind>& types = fields.moe_router_load_balancing_type.values();
  const std::vector<double>& coefficients = fields.moe_aux_loss_coeff.values();
  if (types.empty()) {
    problems.add("model.moe_router_load_balancing_type: [], expected at least one type");
    return;
  }
  for (size_t i = 0; types.size() > 1 && i < types.size(); ++i) {
    const std::string_view type = choice_name(types[i]);
    if (!is_loss(types[i])) {
      problems.add(
          "model.moe_router_load_balancing_type: {} in a list of {} types; expected only losses "
          "(aux_loss, seq_aux_loss, global_aux_loss), or {} alone",
          type, types.size(), type);
    } else if (std::find(types.begin(), types.begin() + static_cast<int64_t>(i), types[i]) !=
               types.begin() + static_cast<int64_t>(i)) {
      problems.add("model.moe_router_load_balancing_type: {} twice, expected it once", type);
    }
  }
  const bool none = !fields.moe_aux_loss_coeff.is_list() && coefficients.front() == 0;
  if (!none && coefficients.size() != types.size()) {
    problems.add(
        "model.moe_aux_loss_coeff: {} for {} of "
        "moe_router_load_balancing_type; expected one for each",
        counted(std::ssize(coefficients), "coefficient"), counted(std::ssize(types), "type"));
  }
}

void check_moe_config(const MoeConfig& moe, int64_t layers, Problems& problems) {
  if (!moe.any()) return;
  const RoutingRule& routing = moe.routing;
  if (static_cast<int64_t>(moe.layers.size()) != layers && !moe.layers.empty()) {
    problems.add("model.moe_layer_freq: {} for {}",
                 counted(static_cast<int64_t>(moe.layers.size()), "entry", "entries"),
                 counted(layers, "layer"));
  }
  for (const int64_t layer : moe.layers) {
    if (layer == 0 || layer == 1) continue;
    problems.add("model.moe_layer_freq: {} in the list, expected 0 or 1", layer);
    break;
  }
  if (static_cast<double>(moe.experts) > kMostExperts)
    problems.add("model.num_moe_experts: {}, expected at most {}", moe.experts, kMostExperts);
  if (routing.topk < 1)
    problems.add("model.moe_router_topk: {}, expected at least 1", routing.topk);
  if (moe.feed_forward < 1)
    problems.add("model.moe_ffn_hidden_size: {}, expected at least 1", moe.feed_forward);
  if (moe.shared_feed_forward < 0) {
    problems.add("model.moe_shared_expert_intermediate_size: {}, expected at least 1",
                 moe.shared_feed_forward);
  }
  if (routing.topk > moe.experts) {
    problems.add("model.moe_router_topk: {} of num_moe_experts = {} experts; nearest: {}",
                 routing.topk, moe.experts, std::min(moe.experts, kMostChosenExperts));
  }
  const bool softmax = routing.score == ScoreFunction::softmax;
  if (softmax && routing.topk == 1 && !routing.pre_softmax && routing.margin == 0) {
    problems.add(
        "model.moe_router_pre_softmax: false with moe_router_topk = 1 gives every token the weight "
        "1, whatever its router says; expected true");
  }
  if (routing.margin > 0 && (!softmax || routing.pre_softmax)) {
    problems.add(
        "model.moe_router_sparsemixer_eps: {} needs moe_router_score_function=softmax and "
        "moe_router_pre_softmax=false, found {} and {}",
        routing.margin / 2, choice_name(routing.score), routing.pre_softmax);
  }
  if (!softmax && routing.pre_softmax)
    problems.add("model.moe_router_pre_softmax: true needs moe_router_score_function=softmax");
  if (softmax && !routing.normalize) {
    problems.add(
        "model.moe_router_norm_topk_prob: false needs moe_router_score_function=sigmoid or "
        "sqrtsoftplus; with softmax moe_router_pre_softmax=true leaves the weights as they are");
  }
  if (softmax && moe.load_bias && routing.groups > 0) {
    problems.add(
        "model.moe_router_num_groups: {} with moe_router_enable_expert_bias = true and "
        "moe_router_score_function=softmax, whose choice by probabilities knows no groups; "
        "expected null, or sigmoid or sqrtsoftplus",
        routing.groups);
  }
  if (moe.pad_to_capacity && moe.capacity_factor == 0) {
    problems.add(
        "model.moe_pad_expert_input_to_capacity: true needs moe_expert_capacity_factor, which is "
        "null");
  }
  if (moe.pad_to_capacity && moe.rank_capacity_factor > 0) {
    problems.add(
        "model.moe_expert_rank_capacity_factor: {} with moe_pad_expert_input_to_capacity = true, "
        "whose rows for the whole capacity of each expert go to a rank whatever it may take; "
        "nearest: null",
        moe.rank_capacity_factor);
  }
  if (moe.shared_gate && moe.shared_feed_forward == 0) {
    problems.add(
        "model.moe_shared_expert_gate: true needs moe_shared_expert_intermediate_size, which is "
        "null");
  }
  if (moe.shared_overlap && moe.shared_feed_forward == 0) {
    problems.add(
        "model.moe_shared_expert_overlap: true needs moe_shared_expert_intermediate_size, which is "
        "null");
  }
  if (moe.weighs_input && routing.topk != 1) {
    problems.add(
        "model.moe_apply_probs_on_input: true with moe_router_topk = {}: each expert of a token "
        "would read another input; expected 1",
        routing.topk);
  }
  if (moe.weighs_input && moe.shared_overlap) {
    problems.add(
        "model.moe_apply_probs_on_input: true with moe_shared_expert_overlap, whose expert reads "
        "what is sent to the others; expected moe_shared_expert_overlap=false");
  }
  if (moe.shared_overlap && moe.dispatch == ExpertDispatch::all_gather) {
    problems.add(
        "model.moe_shared_expert_overlap: true needs moe_token_dispatcher_type=alltoall or flex, "
        "found allgather");
  }
  check_groups(moe, problems);
  check_sinkhorn(moe, problems);
  check_quantile(moe, problems);
}

}  // namespace viaduct
