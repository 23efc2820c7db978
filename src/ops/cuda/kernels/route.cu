// The choice of experts: a warp finds a token's best scores one after the other, of equal ones the
// first.

#include "ops/cuda/kernels/routing.cuh"

namespace viaduct::cuda {
namespace {

struct Groups {
  float scores[kRouterWarps][kMostGroups];
  bool allowed[kRouterWarps][kMostGroups];
};

/// Marks the groups that may be chosen from. A lane adds up the best scores of a group.
template <class Value>
__device__ void choose_groups(const RouterRule& rule, int experts, const Value& value,
                              float (&scores)[kMostGroups], bool (&allowed)[kMostGroups]) {
  const int groups = static_cast<int>(rule.groups), size = experts / groups;
  const int best = min(size, static_cast<int>(rule.best_of_group));
  for (int group = lane_of_thread(); group < groups; group += kWarpLanes) {
    Candidate last{0, -1};
    float sum = 0;
    for (int i = 0; i < best; ++i) {
      last = next_best(
          size, last, 0, 1, [&](int e) { return value(group * size + e); },
          [](int) { return true; });
      sum += last.value;
    }
    scores[group] = sum;
    allowed[group] = false;
  }
  __syncwarp();
  Candidate last{0, -1};
  for (int64_t i = 0; i < rule.group_topk; ++i) {
    last = next_best(
        groups, last, lane_of_thread(), kWarpLanes, [&](int g) { return scores[g]; },
        [](int) { return true; });
    if (lane_of_thread() == 0) allowed[last.number] = true;
  }
  __syncwarp();
}

template <bool kGroups>
__device__ void choose_experts(const RoutedRows& args, const float* logits, int32_t* chosen) {
  const RouterRule& rule = args.rule;
  const int experts = static_cast<int>(args.experts);
  const float shift = rule.choose_probabilities ? log_sum_exp(logits, experts) : 0;
  // Of a row with a NaN all probabilities are NaN: its logits are compared.
  const bool by_probability = rule.choose_probabilities && shift == shift;
  const auto value = [&](int e) {
    const bool plain = rule.score == RouterScore::softmax || rule.choose_logits;
    const float own = by_probability ? expf(logits[e] - shift)
                      : plain        ? logits[e]
                                     : score_of(rule.score, logits[e]);
    return args.bias != nullptr ? own + args.bias[e] : own;
  };
  const bool* allowed = nullptr;
  if constexpr (kGroups) {
    auto& groups = shared<Groups>();
    const auto warp = threadIdx.x / kWarpLanes;
    if (rule.score == RouterScore::softmax && rule.pre_softmax) {
      float most = value(0);
      for (int e = lane_of_thread(); e < experts; e += kWarpLanes)
        most = LargestOf{}(most, value(e));
      most = join_warp(most, LargestOf{});
      choose_groups(
          rule, experts, [&](int e) { return expf(value(e) - most); }, groups.scores[warp],
          groups.allowed[warp]);
    } else {
      choose_groups(rule, experts, value, groups.scores[warp], groups.allowed[warp]);
    }
    allowed = groups.allowed[warp];
  }
  const int size = kGroups ? experts / static_cast<int>(rule.groups) : 1;
  Candidate last{0, -1};
  for (int64_t j = 0; j < rule.topk; ++j) {
    last = next_best(experts, last, lane_of_thread(), kWarpLanes, value,
                     [&](int e) { return !kGroups || allowed[e / size]; });
    if (lane_of_thread() == 0) chosen[j] = last.number;
  }
  __syncwarp();  // the choice is there for all lanes
}

// 4 blocks of a multiprocessor: the compiler would keep registers in memory to have more of them.
template <bool kGroups>
__global__ void __launch_bounds__(kRouterThreads, 4) route_kernel(RoutedRows args) {
  const int64_t token = token_of_warp();
  if (token >= args.tokens) return;  // the whole warp
  const RouterRule& rule = args.rule;
  const float* const logits = args.logits + token * args.experts;
  float* const p = args.probabilities + token * rule.topk;
  int32_t* const chosen = args.choice + token * rule.topk;
  choose_experts<kGroups>(args, logits, chosen);
  if (rule.margin > 0) {
    for (int64_t j = 0; j < rule.topk; ++j) {
      const float near = near_probability(rule, logits, args.experts, chosen, j);
      if (lane_of_thread() == 0) p[j] = rule.scaling * near;
    }
    return;
  }
  const bool softmax = rule.score == RouterScore::softmax;
  const float shift = !softmax           ? 0
                      : rule.pre_softmax ? log_sum_exp(logits, args.experts)
                                         : largest_of(logits, chosen, rule.topk);
  for (int64_t j = lane_of_thread(); j < rule.topk; j += kWarpLanes)
    p[j] = softmax ? expf(logits[chosen[j]] - shift) : score_of(rule.score, logits[chosen[j]]);
  __syncwarp();
  float sum = 0;
  for (int64_t j = 0; j < rule.topk; ++j) sum += p[j];
  if (!softmax) sum = rule.topk > 1 && rule.normalize ? sum + 1e-20f : 1;
  if (softmax && rule.pre_softmax) sum = 1;
  __syncwarp();  // all lanes have read the sum's terms
  for (int64_t j = lane_of_thread(); j < rule.topk; j += kWarpLanes) p[j] *= rule.scaling / sum;
}

}  // namespace

void route(const RoutedRows& args, Stream stream) {
  launch("route", args.rule.groups > 0 ? route_kernel<true> : route_kernel<false>,
         Grid(blocks_for(args.tokens, kRouterWarps)), kRouterThreads, stream, args);
}

VIADUCT_KERNEL_FILE(route)

}  // namespace viaduct::cuda
