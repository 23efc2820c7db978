#pragma once
// Rows of tokens in the order of their experts. A token t has k choices; each choice goes to
// `copies` ranks, the holders of its expert, so that it has k · copies *places*: place j · copies +
// c is copy c of choice j. T tokens, E experts, R = T · k · copies rows.

#include "ops/dispatch.h"

namespace viaduct {

/// Rows sorted by destination: by rank, there by expert, there by token and place. Expert e is on
/// the ranks e / experts_per_rank · copies + c, c = 0 … copies − 1, as its number
/// e % experts_per_rank; D = E · copies destinations (an expert on a rank).
///
/// A choice of −1 (ops/expert_capacity.h) has no row, its places are −1, and the rows after the
/// last destination's are unused rows of token 0. With `rows_each` > 0 each destination has this
/// many rows, at least as many as were chosen, and those beyond them are of token 0; R = D ·
/// rows_each.
///
/// With `rows_multiple` m > 1 each destination has rows of token 0 up to the next multiple of m; R
/// = T · k · copies + D · (m − 1), or D · rows_each with `rows_each`, a multiple of m.
///
/// With `first_expert` f experts are counted from f on, and choices of experts outside of
/// [f, f + D / copies) have no row either: the experts of one rank, for tokens of all ranks.
///
/// With `experts_together` g > 1 each g neighbouring experts are one, which a token is sent to
/// once: "expert" above is a run of g, and of a token's choices in a run only the first has a row.
///
/// all_rows (= or +=) the rows of all destinations, those of token 0 up to a multiple included.
struct SortByExpertArgs {
  Tensor choice;  // i32 [T, k], entries in [0, E), or −1
  int64_t experts_per_rank = 0, copies = 1;
  Tensor token;     // i32 [R]: the token of each row
  Tensor position;  // i32 [T, k · copies]: the row of each place
  Tensor counts;    // i64 [D]: rows of each destination
  Tensor offsets;   // i32 [D + 1]: where they begin
  int64_t rows_each = 0;
  int64_t first_expert = 0;
  int64_t experts_together = 1;
  int64_t rows_multiple = 1;
  Tensor all_rows = {};  // optional, i64 [1]
  WriteMode all_rows_mode = WriteMode::assign;
};
void sort_by_expert(OpContext& context, const SortByExpertArgs& args);

/// Received rows, which come by sender and there by expert, in the order of experts and there of
/// senders. counts i64 [S, N] of S senders for N experts here; R their sum.
struct ArrivalOrderArgs {
  Tensor counts;
  Tensor from;     // i32 [R]: of each row by expert, the row as received
  Tensor back;     // i32 [R]: the inverse
  Tensor offsets;  // i32 [N + 1]: where the rows of each expert begin
};
void arrival_order(OpContext& context, const ArrivalOrderArgs& args);

/// out [T, H] = Σ over the places p of a token, in order, weight[t, p / copies] · rows[position[t,
/// p]] (weights 1 if undefined), without places of −1; sums in FP32 (FP64 for f64), rounded once.
struct CombineRowsArgs {
  Tensor rows;      // [R, H], floating, dense rows
  Tensor position;  // i32 [T, k · copies], contiguous
  Tensor weight;    // f32 (f64 for f64) [T, k], contiguous, or undefined
  Tensor out;       // dtype of rows or f32, dense rows
  int64_t copies = 1;
};
void combine_rows(OpContext& context, const CombineRowsArgs& args);

/// d_rows[position[t, p]] = weight[t, p / copies] · d_out[t], and
/// d_weight[t, j] = Σ over the copies of d_out[t] · rows[position[t, j · copies + c]]; 0 at places
/// of −1. Rows without a place are not changed. `rows` and `d_weight` are both undefined where
/// d_weight comes from elsewhere (`combine_weights_backward`).
struct CombineRowsBackwardArgs {
  Tensor d_out;  // [T, H], floating, dense rows
  Tensor rows;   // as d_rows, or undefined
  Tensor position, weight;
  Tensor d_rows;    // [R, H], floating, dense rows; may be `rows`
  Tensor d_weight;  // as weight, or undefined
  int64_t copies = 1;
};
void combine_rows_backward(OpContext& context, const CombineRowsBackwardArgs& args);

/// out[r] (= or +=) Σ_i x[r, i] · y[r, i], in FP32 (FP64 for f64). With `offsets` y is [E, N] and
/// y[e] takes part for each row r of expert e, [offsets[e], offsets[e + 1]); other rows of out are
/// not changed.
struct RowDotsArgs {
  Tensor x;             // [R, N], floating, dense rows
  Tensor y;             // [R, N] or [E, N], floating, dense rows; f64 only with f64
  Tensor out;           // f32 (f64 for f64) [R, 1], contiguous
  Tensor offsets = {};  // optional, i32 [E + 1], contiguous, ascending
  WriteMode mode = WriteMode::assign;
};
void row_dots(OpContext& context, const RowDotsArgs& args);

/// The d_weight of `combine_rows_backward` from dots[r] = d_rows[r] · rows[r], which is weight ·
/// (d_out · rows[r]): d_weight[t, j] = Σ over the copies of dots[position[t, j · copies + c]] /
/// weight[t, j], without places of −1; 0 where the weight is 0. The dots of such a weight do not
/// have the gradient any more, but where a score has become 0, so has its slope.
struct CombineWeightsBackwardArgs {
  Tensor dots;      // f32 or f64 [R, 1], contiguous
  Tensor position;  // i32 [T, k · copies], contiguous
  Tensor weight;    // dtype of dots [T, k], contiguous
  Tensor d_weight;  // as weight
  int64_t copies = 1;
};
void combine_weights_backward(OpContext& context, const CombineWeightsBackwardArgs& args);

}  // namespace viaduct
