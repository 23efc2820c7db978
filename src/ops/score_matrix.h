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

/// The step of one op on the scores: one of three, or all of them.
enum class ScoreSteps { all, scale, mask, softmax };

/// In place: scale (and soft cap), hidden keys become −inf, softmax. `known_lse`: probabilities are
/// exp(score − lse) of the lse given; else lse [N, Tq] is written. A query without visible keys has
/// probabilities 0 and lse −inf. With `narrow` [N, Tq, L] the probabilities go there instead of
/// into the matrix, whose content is then undefined.
struct ScoreSoftmaxArgs {
  ScoreSteps steps = ScoreSteps::all;
  AttentionProblem problem;
  Tensor matrix, lse;
  bool known_lse = false;
  Tensor narrow = {};  // bf16 or f16; of the steps all and softmax
};

/// Recorded as masked_softmax, score_scale, score_mask or score_softmax.
void score_softmax(OpContext& context, const ScoreSoftmaxArgs& args);

/// In place on the gradient of the probabilities: times p and minus p · delta (softmax), times the
/// slope of the cap and the scale (scale). `steps` is all, softmax or scale. With `narrow` [N, Tq,
/// L] the result goes there instead, and the content of `gradient` is undefined. The slope of a cap
/// needs f32 probabilities.
struct ScoreSoftmaxBackwardArgs {
  ScoreSteps steps = ScoreSteps::all;
  AttentionProblem problem;
  Tensor probabilities, gradient;  // [N, Tq, L]; probabilities may be narrow
  Tensor lse, delta;               // [N, Tq]
  Tensor narrow = {};              // bf16 or f16
};

/// Recorded as masked_softmax_backward, score_softmax_backward or score_scale_backward.
void score_softmax_backward(OpContext& context, const ScoreSoftmaxBackwardArgs& args);

/// out = x · (0 or 1 / (1 − dropout)), with the bits of ops/attention.h. out may alias x. Both may
/// be narrow.
struct ScoreDropoutArgs {
  AttentionProblem problem;
  Tensor x, out;
};

void score_dropout(OpContext& context, const ScoreDropoutArgs& args);

}  // namespace viaduct
