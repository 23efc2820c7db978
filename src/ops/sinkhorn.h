#pragma once
// Balanced choice of experts by matrix scaling (Sinkhorn 1967; Clark et al. 2022, arXiv 2202.01169,
// section 3.2; the rule of Megatron-Core's router of type sinkhorn): exp(logits) is scaled by a
// factor of each token and one of each expert until all tokens weigh the same and all experts weigh
// the same, and each token chooses the experts with its largest scaled values. The factor of a
// token is the same for all its experts, so the choice needs only those of experts: as a bias of
// logits (ops/routing.h, RoutingRule::choose_logits).

#include "ops/dispatch.h"

namespace viaduct {

/// N tokens that are balanced together, E experts, x the logits. From c_e = 1 on, repeatedly:
///   r_t = 1 / (N · (Σ_e c_e · exp(x_te) + ε)),  c_e ← 1 / (E · (Σ_t r_t · exp(x_te) + ε))
/// with ε = 1e-8, until c changes by at most 1e-4 an expert on average, or kSinkhornRounds times.
/// exp(x_te) is taken relative to the largest of its token, which changes c only through ε.
/// bias_e = log c_e. Without tokens, 0. A NaN makes every bias NaN.
struct SinkhornArgs {
  Tensor logits;  // f32 or f64 [N, E], contiguous
  Tensor bias;    // dtype of logits [E], contiguous
};
void sinkhorn_bias(OpContext& context, const SinkhornArgs& args);

inline constexpr double kSinkhornTolerance = 1e-4, kSinkhornEpsilon = 1e-8;
/// Maximum rounds: bounds the time for logits far from any balance.
inline constexpr int kSinkhornRounds = 1000;

}  // namespace viaduct
