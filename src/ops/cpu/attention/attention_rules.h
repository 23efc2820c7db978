#pragma once
// What all attention kernels share, whatever the layout of their blocks: which keys a query sees,
// the soft cap, and the gradient of a score. Compiled per instruction set.

#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
inline int64_t larger_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/// Query i sees keys [first_key, end_key).
inline int64_t first_key(const AttentionHead& head, int64_t i) {
  return head.window > 0 ? larger_of(0, i + head.diagonal - head.window + 1) : 0;
}
inline int64_t end_key(const AttentionHead& head, int64_t i) {
  return head.causal ? smaller(head.keys, i + head.diagonal + 1) : head.keys;
}

/// tanh of score / cap, and the slope of the cap there: cap · tanh(s / cap) has slope 1 − tanh².
struct SoftCapped {
  Vec tanh, slope;
};
inline SoftCapped soft_capped(Vec score_by_cap) {
  const Vec t = tanh(score_by_cap);
  return {t, fnma(t, t, set1(1.0f))};
}

/// A probability as the values were weighted with it, and the gradient of its score before the
/// slope of the cap.
struct ScoreGradient {
  Vec used, d;
};
/// p = e^(score − lse), d = d_out · v, delta = Σ out · d_out. Dropout multiplies a probability by
/// its factor, and so the gradient of it.
inline ScoreGradient score_gradient(Vec p, Vec d, Vec delta) {
  return {p, mul(p, sub(d, delta))};
}
inline ScoreGradient score_gradient(Vec p, Vec d, Vec delta, Vec factors) {
  return {mul(p, factors), mul(p, sub(mul(d, factors), delta))};
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
