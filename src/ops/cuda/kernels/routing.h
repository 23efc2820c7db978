#pragma once
// The choice of experts, its gradient and the losses of routers (ops/routing.h), in FP32. A warp
// has a token.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

enum class RouterScore : uint8_t { softmax, sigmoid, sqrt_softplus };

struct RouterRule {
  RouterScore score;
  bool pre_softmax, normalize, choose_logits, choose_probabilities;
  int64_t topk, groups, group_topk, best_of_group;
  float scaling;
  float margin;  // 0: none
};
/// Maximum experts of a token of a rule with a margin.
inline constexpr int kMostNearChoices = 64;
/// Maximum groups that kernels support.
inline constexpr int kMostGroups = 256;

struct RoutedRows {
  RouterRule rule;
  const float* logits;  // [tokens, experts]
  const float* bias;    // [experts] or null
  float* probabilities;
  int32_t* choice;  // [tokens, topk] both
  int64_t tokens, experts;
};
void route(const RoutedRows& args, Stream stream);

/// What a balancing loss reads.
struct RouterBalance {
  const int64_t* counts;     // [experts], with documents [D, experts]; or null
  const int32_t* documents;  // [document_ends], or null
  int64_t document_ends, first_token, tokens;
};

struct RoutedGradients {
  RouterRule rule;
  const float *d_probabilities, *logits;
  const int32_t* choice;
  float* d_logits;  // may be logits
  RouterBalance balance;
  double balance_factor, z_factor;  // 0: none
  const double* loss_scale;
  int64_t tokens, experts;
  const int64_t* token_index;  // or null: there is no padding
};
void route_backward(const RoutedGradients& args, Stream stream);

struct RouterLosses {
  RouterRule rule;
  const float* logits;
  RouterBalance balance;
  double* partial;  // [parts, 3]
  double* out;      // [3], added to
  int64_t tokens, experts, parts;
  const int64_t* token_index;
};
void router_loss(const RouterLosses& args, Stream stream);

struct ChoiceCounts {
  const int32_t* choice;  // [choices]
  int64_t* counts;        // [counters]
  const int32_t* documents;
  int64_t document_ends, first_token, choices, topk, experts, counters;
  bool accumulate;
  const int64_t* token_index;
};
void count_choices(const ChoiceCounts& args, Stream stream);

/// Counts of the margins of a load bias, and the bias at their quantile (ops/load_quantile.h).
struct MarginCounts {
  const float *logits, *bias;  // [tokens, experts], [experts]
  int64_t* histogram;          // [experts, bins]
  int64_t tokens, experts, bins, topk;
  bool accumulate;
  const int64_t* token_index;
};
void count_margins(const MarginCounts& args, Stream stream);

struct QuantileBias {
  const int64_t* histogram;
  const float* bias;
  double* quantile;  // [experts], scratch
  float* out;
  int64_t experts, bins, topk;
};
void quantile_bias(const QuantileBias& args, Stream stream);

/// Factors of experts by Sinkhorn's iteration (ops/sinkhorn.h), in one block: the number of rounds
/// is known only on the device.
struct Sinkhorn {
  const float* logits;
  float* bias;
  double *factors, *sums;  // [experts], [kSinkhornWarps, experts]
  float* exponentials;     // [tokens, experts]
  int64_t tokens, experts;
  double tolerance, epsilon;
  int rounds;
};
inline constexpr int kSinkhornWarps = 16;
void sinkhorn(const Sinkhorn& args, Stream stream);

}  // namespace viaduct::cuda
