#pragma once
// Attention composed of ops, with the score matrix in memory: products, scale and cap, mask,
// softmax, dropout, products. The problem and its formulas are those of ops/attention.h; flash
// attention fuses these steps. For `model.attention_backend=unfused`.
//
// A score matrix is f32 (f64 for f64) [N, Tq, L], contiguous, L ≥ the keys of the longest document
// (`problem.max_keys`): element (n, t, j) belongs to query t and key j of its document; elements
// beyond the keys of the document are not accessed. All (query, key) pairs of a document are
// computed, also masked ones.
//
// Narrow factors: where matrix units make the products (OpTable::narrow_score_factors), a matrix of
// probabilities or of gradients of scores, which only products read, may be bf16 or f16: they
// round it anyway (ops/attention.h, precision). The gradient of the softmax then reads rounded
// probabilities, which adds another half unit of the format to dq and dk. Scores stay f32.

#include "ops/attention.h"

namespace viaduct {

/// scores: matrix = queries · keysᵀ, for every query head.
/// values: queries (= or +=) matrix · keys.
/// keys: keys += matrixᵀ · queries, summed over the query heads of a group.
enum class ScoreProduct { scores, values, keys };

/// `queries` [Tq, N, D] is q, out, d_out or dq; `keys` [Tk, K, D] is k, v, dk or dv. Inputs have
/// any floating dtype; accumulated outputs are f32 (f64 for f64); assigned `values` may be either.
/// Outer dims strided, dense inside. `matrix` may be narrow where it is a factor.
struct ScoreProductArgs {
  ScoreProduct form = ScoreProduct::scores;
  AttentionProblem problem;
  Tensor matrix, queries, keys;
  WriteMode mode = WriteMode::assign;  // of `values`
};

/// Recorded as attention_scores, attention_values or attention_keys.
void score_product(OpContext& context, const ScoreProductArgs& args);

/// What is done to the rows of the matrix. Backward steps work on the gradient of what the step
/// made; hidden keys have probability 0, so a mask needs none.
enum class ScoreStep {
  masked_softmax,           // scale, mask and softmax in one op
  scale,                    // times the scale, then the soft cap
  mask,                     // hidden keys become −inf
  softmax,                  // probabilities, and lse
  masked_softmax_backward,  // softmax_backward and scale_backward in one op
  softmax_backward,         // times p and minus p · delta
  scale_backward,           // times the slope of the cap and the scale
  dropout,                  // times (0 or 1 / (1 − dropout)), with the bits of ops/attention.h
};

/// The parts of a step that one op may do together. Of dropout: none.
struct ScoreParts {
  bool scale, mask, softmax, backward;
};
constexpr ScoreParts parts_of(ScoreStep step) {
  using enum ScoreStep;
  const bool all = step == masked_softmax, all_back = step == masked_softmax_backward;
  return {all || all_back || step == scale || step == scale_backward, all || step == mask,
          all || all_back || step == softmax || step == softmax_backward,
          all_back || step == softmax_backward || step == scale_backward};
}

/// In place on x [N, Tq, L], or from there to `out` [N, Tq, L], which makes the content of x
/// undefined: an `out` in bf16 or f16 takes probabilities or gradients of scores; dropout has an
/// `out` of the dtype of x, and leaves x as it is.
///
/// Softmax: probabilities are exp(score − lse) of the lse given if `known_lse`, else lse [N, Tq] is
/// written. A query without visible keys has probabilities 0 and lse −inf.
struct ScoreRowsArgs {
  ScoreStep step = ScoreStep::masked_softmax;
  AttentionProblem problem;
  Tensor x;
  Tensor out = {};
  Tensor lse = {};  // [N, Tq], of softmax and backward steps
  bool known_lse = false;
  // Of backward steps:
  Tensor probabilities = {};  // [N, Tq, L]; may be narrow, but not for the slope of a cap
  Tensor delta = {};          // [N, Tq]
};

/// Recorded as the step, with "score_" in front of those that are no masked softmax.
void score_rows(OpContext& context, const ScoreRowsArgs& args);

}  // namespace viaduct
