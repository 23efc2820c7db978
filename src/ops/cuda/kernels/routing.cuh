#pragma once
// Scores of a token's experts, the best of them, and sums over them; the arithmetic is that of the
// cpu, the order of sums over experts is a warp's.

#include "ops/cuda/kernels/routing.h"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {

inline constexpr int kRouterThreads = 256, kRouterWarps = kRouterThreads / kWarpLanes;

__device__ inline int lane_of_thread() {
  return static_cast<int>(threadIdx.x) % kWarpLanes;
}
__device__ inline bool is_padding(const int64_t* token_index, int64_t token) {
  return token_index != nullptr && token_index[token] < 0;
}
/// The token of this warp.
__device__ inline int64_t token_of_warp() {
  return int64_t{blockIdx.x} * kRouterWarps + threadIdx.x / kWarpLanes;
}

__device__ inline float sigmoid_of(float x) {
  return 1 / (1 + expf(-x));
}

/// Scores other than the softmax's: s of a logit, and s′ / s.
__device__ inline float score_of(RouterScore function, float x) {
  if (function == RouterScore::sigmoid) return sigmoid_of(x);
  return sqrtf((x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x))));
}
__device__ inline float relative_slope(RouterScore function, float x) {
  if (function == RouterScore::sigmoid) return 1 - sigmoid_of(x);
  const float s = score_of(function, x);
  return x < -15 ? 0.5f : sigmoid_of(x) / (2 * s * s);
}

/// Σ f(e) over the experts, for all lanes.
template <class T, class F>
__device__ T sum_over(int64_t count, F&& f) {
  T sum = 0;
  for (int64_t e = lane_of_thread(); e < count; e += kWarpLanes) sum += f(e);
  return join_warp(sum, SumOf{});
}

__device__ inline float largest_of(const float* x, int64_t count) {
  float most = x[0];
  for (int64_t e = lane_of_thread(); e < count; e += kWarpLanes) most = LargestOf{}(most, x[e]);
  return join_warp(most, LargestOf{});
}

/// Of the chosen logits: with a bias the first choice need not have it.
__device__ inline float largest_of(const float* logits, const int32_t* chosen, int64_t count) {
  float most = logits[chosen[0]];
  for (int64_t j = 1; j < count; ++j) most = LargestOf{}(most, logits[chosen[j]]);
  return most;
}

__device__ inline float log_sum_exp(const float* x, int64_t count) {
  const float most = largest_of(x, count);
  return most + logf(sum_over<float>(count, [&](int64_t e) { return expf(x[e] - most); }));
}

/// Of a rule with a margin: whether an expert with logit x is compared with a choice of logit m.
__device__ inline bool is_near(float margin, float m, float x) {
  const float size = fabsf(x);
  return !((m - x) / (size < m ? m : size) > margin);
}

/// The part of the softmax's sum that expert `e` has for choice j: 0 where it was chosen before or
/// is not near.
__device__ inline float near_part(const RouterRule& rule, const float* logits,
                                  const int32_t* chosen, int64_t j, int64_t e, float m) {
  if (!is_near(rule.margin, m, logits[e])) return 0;
  for (int64_t i = 0; i < j; ++i)
    if (chosen[i] == e) return 0;
  return expf(logits[e] - m);
}

/// 1 / Σ of those parts, the probability of choice j, for all lanes.
__device__ inline float near_probability(const RouterRule& rule, const float* logits,
                                         int64_t experts, const int32_t* chosen, int64_t j) {
  const float m = logits[chosen[j]];
  return 1 / sum_over<float>(experts,
                             [&](int64_t e) { return near_part(rule, logits, chosen, j, e, m); });
}

/// A score and its expert; number −1: none.
struct Candidate {
  float value;
  int32_t number;
};

__device__ inline bool better(float a, float b) {
  return a != a ? !(b != b) : a > b;
}
/// Whether a is chosen before b: a NaN counts as the largest, of equal scores the first wins.
__device__ inline bool precedes(Candidate a, Candidate b) {
  if (a.number < 0 || b.number < 0) return a.number >= 0;
  return better(a.value, b.value) || (!better(b.value, a.value) && a.number < b.number);
}

/// The best of n candidates behind `last` in the order of choosing, by the lanes [0, lanes) of a
/// warp from `lane` on (1: this thread alone).
template <class Value, class May>
__device__ Candidate next_best(int n, Candidate last, int lane, int lanes, const Value& value,
                               const May& may) {
  Candidate best{0, -1};
#pragma unroll 1  // a score takes many registers
  for (int e = lane; e < n; e += lanes) {
    if (!may(e)) continue;
    const Candidate own{value(e), e};
    if (last.number >= 0 && !precedes(last, own)) continue;
    if (precedes(own, best)) best = own;
  }
  for (int bits = lanes / 2; bits > 0; bits /= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, best.value, bits),
                          __shfl_xor_sync(kAllLanes, best.number, bits)};
    if (precedes(other, best)) best = other;
  }
  return best;
}

/// The probabilities that the balancing loss sums.
struct Balanced {
  const float* logits;
  RouterScore score;
  float shift;

  __device__ Balanced(const RouterRule& rule, const float* x, int64_t experts)
      : logits(x), score(rule.score) {
    shift =
        score == RouterScore::softmax
            ? log_sum_exp(x, experts)
            : 1e-20f + sum_over<float>(experts, [&](int64_t e) { return score_of(score, x[e]); });
  }
  __device__ float value(int64_t e) const {
    return score == RouterScore::softmax ? expf(logits[e] - shift)
                                         : score_of(score, logits[e]) / shift;
  }
  /// Its slope beside the softmax's.
  __device__ float slope(int64_t e) const {
    return score == RouterScore::softmax ? 1 : relative_slope(score, logits[e]);
  }
};

/// The document of a token: the last one that begins at or before it.
__device__ inline int64_t document_of(const int32_t* documents, int64_t ends, int64_t token) {
  int64_t low = 0, high = ends;  // the first that begins behind the token is in [low, high]
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (documents[middle] <= token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

/// What the balancing loss knows of a token: n_e, and E / (k · N). For all lanes of its warp.
struct BalanceOfToken {
  const int64_t* counts;
  double factor;

  __device__ BalanceOfToken(const RouterBalance& balance, int64_t topk, int64_t experts,
                            int64_t token)
      : counts(balance.counts) {
    int64_t choices = topk * balance.tokens;
    if (balance.documents != nullptr)
      counts += experts *
                document_of(balance.documents, balance.document_ends, balance.first_token + token);
    if (balance.documents != nullptr || balance.tokens == 0) {
      choices = sum_over<int64_t>(experts, [&](int64_t e) { return counts[e]; });
      choices = choices < 1 ? 1 : choices;
    }
    factor = static_cast<double>(experts) / static_cast<double>(choices);
  }
};

}  // namespace viaduct::cuda
