// The gradient of routing and the losses of routers: a warp has a token, whose sums it makes first;
// then each lane writes its experts, so that the gradient may take the place of the logits.

#include "ops/cuda/kernels/routing.cuh"

namespace viaduct::cuda {
namespace {

/// The gradient through the probabilities of the chosen experts.
struct ChosenGradient {
  const RouterRule& rule;
  const float *logits, *d;
  const int32_t* chosen;
  bool softmax, pre_softmax, shared;  // shared: probabilities are parts of a whole
  float shift, sum, mean;

  __device__ ChosenGradient(const RoutedGradients& args, const float* x, const float* d_of_token,
                            const int32_t* choice, int64_t experts)
      : rule(args.rule), logits(x), d(d_of_token), chosen(choice) {
    softmax = rule.score == RouterScore::softmax;
    pre_softmax = softmax && rule.pre_softmax;
    shared = softmax || (rule.topk > 1 && rule.normalize);
    shift = pre_softmax ? log_sum_exp(logits, experts) : largest_of(logits, chosen, rule.topk);
    sum = sum_over<float>(rule.topk, [&](int64_t j) { return unscaled(j); });
    if (!softmax && rule.topk > 1) sum += 1e-20f;
    mean = sum_over<float>(rule.topk, [&](int64_t j) { return rule.scaling * d[j] * part(j); });
    if (!shared) mean = 0;
  }
  __device__ float unscaled(int64_t j) const {
    const float x = logits[chosen[j]];
    return softmax ? expf(x - shift) : score_of(rule.score, x);
  }
  /// The probability of choice j before `scaling`.
  __device__ float part(int64_t j) const {
    return shared && !pre_softmax ? unscaled(j) / sum : unscaled(j);
  }
  /// With pre_softmax every expert has a gradient, else only chosen ones.
  __device__ float of(int64_t e) const {
    float g = 0;
    bool found = false;
    int64_t place = 0;
    for (int64_t j = 0; j < rule.topk && !found; ++j) {
      found = chosen[j] == e;
      if (found) place = j, g = rule.scaling * d[j];
    }
    if (pre_softmax) return expf(logits[e] - shift) * (g - mean);
    if (!found) return 0;
    const float slope = softmax ? 1 : relative_slope(rule.score, logits[e]);
    return part(place) * slope * (g - mean);
  }
};

/// Of each choice of a block's tokens: its logit and its probability. Lanes read them while others
/// write gradients in the place of logits.
struct NearChoices {
  float logit[kRouterWarps][kMostNearChoices], probability[kRouterWarps][kMostNearChoices];
};

/// The gradient through the probabilities of a rule with a margin.
struct NearGradient {
  const RouterRule& rule;
  const float *logits, *d;
  const int32_t* chosen;
  const float *logit, *probability;

  __device__ NearGradient(const RoutedGradients& args, const float* x, const float* d_of_token,
                          const int32_t* choice, int64_t experts)
      : rule(args.rule), logits(x), d(d_of_token), chosen(choice) {
    auto& choices = shared<NearChoices>();
    const auto warp = threadIdx.x / kWarpLanes;
    for (int64_t j = 0; j < rule.topk; ++j) {
      const float p = near_probability(rule, logits, experts, chosen, j);
      if (lane_of_thread() == 0)
        choices.logit[warp][j] = logits[chosen[j]], choices.probability[warp][j] = p;
    }
    logit = choices.logit[warp], probability = choices.probability[warp];
  }
  __device__ float of(int64_t e) const {
    float gradient = 0;
    const float x = logits[e];
    for (int64_t j = 0; j < rule.topk; ++j) {
      const float p = probability[j], g = rule.scaling * d[j] * p;
      if (is_near(rule.margin, logit[j], x)) gradient -= g * p * expf(x - logit[j]);
      if (chosen[j] == e) return gradient + g;  // later choices are not compared with it
    }
    return gradient;
  }
};

/// The gradient of Σ g(e) · balanced(e) for the counts of a balancing loss.
struct BalanceGradient {
  Balanced balanced;
  BalanceOfToken balance;
  double factor;
  float mean;

  __device__ BalanceGradient(const RoutedGradients& args, const float* logits, int64_t token)
      : balanced(args.rule, logits, args.experts),
        balance(args.balance, args.rule.topk, args.experts, token) {
    factor = args.balance_factor * *args.loss_scale * balance.factor;
    mean = sum_over<float>(args.experts, [&](int64_t e) { return weight(e) * balanced.value(e); });
  }
  __device__ float weight(int64_t e) const {
    return static_cast<float>(factor * static_cast<double>(balance.counts[e]));
  }
  __device__ float of(int64_t e) const {
    return balanced.value(e) * balanced.slope(e) * (weight(e) - mean);
  }
};

template <bool kBalance, class Through>
__global__ void __launch_bounds__(kRouterThreads) route_backward_kernel(RoutedGradients args) {
  const int64_t token = token_of_warp(), experts = args.experts, k = args.rule.topk;
  if (token >= args.tokens) return;  // the whole warp
  const float* const logits = args.logits + token * experts;
  const Through through(args, logits, args.d_probabilities + token * k, args.choice + token * k,
                        experts);
  const bool scored = !is_padding(args.token_index, token);
  const float shift = args.z_factor != 0 ? log_sum_exp(logits, experts) : 0;
  const float z = scored && args.z_factor != 0
                      ? static_cast<float>(2 * args.z_factor * *args.loss_scale) * shift
                      : 0;
  // Chosen experts' logits are read by all lanes: their gradients are written after them.
  const auto write = [&](const auto& balance_of) {
    for (int64_t first = 0; first < experts; first += kWarpLanes) {
      const int64_t e = first + lane_of_thread();
      float gradient = 0;
      if (e < experts) {
        gradient = through.of(e) + balance_of(e);
        if (args.z_factor != 0) gradient += z * expf(logits[e] - shift);
        args.d_logits[token * experts + e] = gradient;
      }
    }
  };
  if constexpr (kBalance) {
    const BalanceGradient balance(args, logits, token);
    __syncwarp();  // all sums are made
    write([&](int64_t e) { return scored ? balance.of(e) : 0.0f; });
  } else {
    __syncwarp();
    write([](int64_t) { return 0.0f; });
  }
}

__global__ void __launch_bounds__(kRouterThreads) router_loss_kernel(RouterLosses args) {
  const int64_t part = blockIdx.x;
  const int64_t begin = part * args.tokens / args.parts,
                end = (part + 1) * args.tokens / args.parts;
  double sums[3] = {};  // of this lane
  for (int64_t t = begin + threadIdx.x / kWarpLanes; t < end; t += kRouterWarps) {
    if (is_padding(args.token_index, t)) continue;  // the whole warp
    const float* const logits = args.logits + t * args.experts;
    const Balanced balanced(args.rule, logits, args.experts);
    if (args.balance.counts != nullptr) {
      const BalanceOfToken balance(args.balance, args.rule.topk, args.experts, t);
      for (int64_t e = lane_of_thread(); e < args.experts; e += kWarpLanes) {
        sums[0] += static_cast<double>(balanced.value(e)) * balance.factor *
                   static_cast<double>(balance.counts[e]);
      }
    }
    const auto shift = static_cast<double>(log_sum_exp(logits, args.experts));
    if (lane_of_thread() == 0) sums[1] += shift * shift;
    for (int64_t e = lane_of_thread(); e < args.experts; e += kWarpLanes) {
      const auto p = static_cast<double>(balanced.value(e));
      sums[2] -= p > 0 ? p * log(p) : 0;
    }
  }
  for (int i = 0; i < 3; ++i) {
    const double all = join_block<kRouterThreads>(sums[i], SumOf{});
    if (threadIdx.x == 0) args.partial[3 * part + i] = all;
  }
}

__global__ void add_losses_kernel(RouterLosses args) {
  const int i = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t part = 0; part < args.parts; ++part) sum += args.partial[3 * part + i];
  args.out[i] += sum;
}

__global__ void __launch_bounds__(kRouterThreads) clear_counts_kernel(ChoiceCounts args) {
  for_elements<1>(1, args.counters, kRouterThreads,
                  [&](int64_t, int64_t i, auto) { args.counts[i] = 0; });
}

/// Integers: the order of additions has no effect.
__global__ void __launch_bounds__(kRouterThreads) count_choices_kernel(ChoiceCounts args) {
  for_elements<1>(1, args.choices, kRouterThreads, [&](int64_t, int64_t i, auto) {
    const int32_t expert = args.choice[i];
    if (expert < 0 || is_padding(args.token_index, i / args.topk)) return;
    const int64_t row = args.documents == nullptr ? 0
                                                  : document_of(args.documents, args.document_ends,
                                                                args.first_token + i / args.topk);
    atomicAdd(reinterpret_cast<unsigned long long*>(args.counts + row * args.experts + expert),
              1ull);
  });
}

}  // namespace

void route_backward(const RoutedGradients& args, Stream stream) {
  const bool balance = args.balance_factor != 0;
  auto* kernel = balance ? route_backward_kernel<true, ChosenGradient>
                         : route_backward_kernel<false, ChosenGradient>;
  if (args.rule.margin > 0)
    kernel = balance ? route_backward_kernel<true, NearGradient>
                     : route_backward_kernel<false, NearGradient>;
  launch("route_backward", kernel, Grid(blocks_for(args.tokens, kRouterWarps)), kRouterThreads,
         stream, args);
}

void router_loss(const RouterLosses& args, Stream stream) {
  launch("router_loss", router_loss_kernel, Grid(args.parts), kRouterThreads, stream, args);
  launch("add_losses", add_losses_kernel, Grid(1), 3, stream, args);
}

void count_choices(const ChoiceCounts& args, Stream stream) {
  if (!args.accumulate)
    launch("clear_counts", clear_counts_kernel,
           grid_for_elements(1, args.counters, 1, kRouterThreads), kRouterThreads, stream, args);
  launch("count_choices", count_choices_kernel,
         grid_for_elements(1, args.choices, 1, kRouterThreads), kRouterThreads, stream, args);
}

VIADUCT_KERNEL_FILE(route_backward)

}  // namespace viaduct::cuda
