#pragma once
// The choice of experts of each token, from the logits of a router (Shazeer et al. 2017; sigmoid
// scores, groups and the bias: DeepSeek-AI 2024, arXiv 2412.19437, section 2.1.2; margins: Liu et
// al. 2024, arXiv 2409.12136). T tokens, E experts, k experts of a token.

#include <array>
#include <string_view>

#include "ops/dispatch.h"

namespace viaduct {

enum class ScoreFunction { softmax, sigmoid, sqrt_softplus };
/// As settings have them (config/choice.h).
constexpr auto choice_names(ScoreFunction) {
  return std::to_array<std::string_view>({"softmax", "sigmoid", "sqrtsoftplus"});
}

/// How probabilities come from logits:
///   softmax              p = softmax over the chosen logits
///   softmax, pre_softmax p = the chosen ones of softmax over all logits
///   softmax, margin > 0  p_j = the j-th chosen one of softmax over those logits x_e that were not
///                        chosen before and are near its logit m: (m − x_e) / max(|x_e|, m) is not
///                        above the margin (SparseMixer, where it does not sample)
///   sigmoid              p = s / (Σ s + 1e-20) over the chosen, s = sigmoid of the logit
///                        (k = 1 or not `normalize`: p = s)
///   sqrt_softplus        the same with s = √log(1 + exp(logit))
/// times `scaling`. Chosen are the k largest of the scores (softmax or `choose_logits`: the logits;
/// `choose_probabilities`: the softmax over all logits; others: s) plus the bias; of equal ones the
/// first. A NaN counts as the largest, so it reaches the output. With groups of E / groups
/// neighbours only experts of the `group_topk` groups with the largest scores are chosen from. A
/// group's score is the sum of its best `group_best` scores (with pre_softmax those of the softmax
/// over all logits).
struct RoutingRule {
  ScoreFunction score = ScoreFunction::softmax;
  bool pre_softmax = false;
  int64_t topk = 2;
  int64_t groups = 0, group_topk = 0;  // 0: no groups
  double scaling = 1;
  bool normalize = true;
  int64_t group_best = 0;      // 0: k / group_topk (DeepSeek-V3: 2; DeepSeek-V2: 1)
  bool choose_logits = false;  // not with groups
  /// Of a softmax whose choice has a bias (ERNIE 4.5): probabilities have a scale to compare a bias
  /// with, logits have none. Not with groups.
  bool choose_probabilities = false;
  double margin = 0;  // of a softmax without pre_softmax; 0: none

  /// The number of best scores of a group that are summed; without groups, 1.
  int64_t best_of_group() const {
    if (group_best > 0) return group_best;
    return group_topk > 0 && topk > group_topk ? topk / group_topk : 1;
  }
  bool operator==(const RoutingRule&) const = default;
};

/// Largest number of experts of a token that kernels support.
inline constexpr int64_t kMostChosenExperts = 64;

struct RouteArgs {
  RoutingRule rule;
  Tensor logits;         // f32 or f64 [T, E], contiguous
  Tensor bias;           // optional, dtype of logits [E]: affects only the choice
  Tensor probabilities;  // dtype of logits [T, k], in the order of choosing
  Tensor choice;         // i32 [T, k]
};
void route(OpContext& context, const RouteArgs& args);

/// Losses of the router itself, as gradients of logits. They are sums over tokens, like the loss of
/// the step before its division; `loss_scale` multiplies them (StepScalar::router_loss_scale, with
/// which they become means over all tokens).
struct RouterLossTerms {
  /// balance · E / (k · N) · Σ_e P_e · n_e, P_e the sum over the tokens of the softmax over all
  /// experts (others: s / Σ s) and n_e their number of choices: `counts`, taken over the
  /// `tokens` = N tokens that are balanced together (Fedus et al. 2021, eq. 4 to 6, times N). With
  /// `documents` each document has a loss of its own, of its own counts.
  double balance = 0;
  int64_t tokens = 0;  // 0, and with documents: N = Σ_e n_e / k
  Tensor counts;       // i64 [E], with documents [D, E]
  /// z · Σ logsumexp(logits)² (Zoph et al. 2022, eq. 5, times N).
  double z = 0;
  Tensor loss_scale;        // f64 [1]; needed with either of them
  Tensor documents;         // optional i32 [D + 1]: the first token of each, and the end
  int64_t first_token = 0;  // number of the first token here, as documents count them
  Tensor token_index;       // optional i64 [T]: tokens of −1 are padding, which has no losses
};

/// d_logits [T, E] from d_probabilities [T, k], for a choice that stays.
struct RouteBackwardArgs {
  RoutingRule rule;
  Tensor d_probabilities, logits, choice;
  Tensor d_logits;  // may be `logits`
  RouterLossTerms losses;
};
void route_backward(OpContext& context, const RouteBackwardArgs& args);

/// The values of these losses without their factors, and the entropy of the probabilities p_e that
/// P_e sums: out f64 [3] += (Σ_e P_e · n_e · E / (k · N), Σ logsumexp², −Σ p_e log p_e). `counts`
/// undefined: the first is not changed.
struct RouterLossArgs {
  RoutingRule rule;
  Tensor logits;  // [T, E]
  int64_t tokens = 0;
  Tensor counts;  // i64 [E], with documents [D, E]
  Tensor out;     // f64 [3]
  Tensor documents;
  int64_t first_token = 0;
  Tensor token_index;  // as in RouterLossTerms
};
void router_loss(OpContext& context, const RouterLossArgs& args);

/// counts (= or +=) how often the tokens of each document chose each expert. Entries of −1 are not
/// choices, and padding chooses nothing.
struct CountChoicesArgs {
  Tensor choice;     // i32 [T, k]
  Tensor counts;     // i64 [E], with documents [D, E]
  Tensor documents;  // optional i32 [D + 1], as in RouterLossTerms
  int64_t first_token = 0;
  WriteMode mode = WriteMode::assign;
  Tensor token_index = {};  // as in RouterLossTerms
};
void count_choices(OpContext& context, const CountChoicesArgs& args);

}  // namespace viaduct
