#pragma once
// The steps of Adafactor (Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5): the mean
// square of the gradients of a matrix is kept as a mean of each row and of each column. Sums over a
// matrix that several ranks hold are exact, so they are the same for every cut and order.

#include <vector>

#include "ops/dispatch.h"
#include "ops/step_scalars.h"

namespace viaduct {

/// A logical matrix in the flat arrays over matrices that these ops share, a value for each row and
/// each column of the storage: `rows` values at `place`, those of the columns at `column_place`.
struct AdafactorMatrix {
  int64_t rows = 0, columns = 0;  // of the whole matrix
  int64_t place = 0, column_place = 0;
};

/// A rectangle of a logical matrix whose elements lie one after the other, row by row.
struct AdafactorPiece {
  Tensor gradient;  // f32, flat
  AdafactorMatrix matrix;
  int64_t row = 0, column = 0;    // of its first element, in the matrix
  int64_t rows = 0, columns = 0;  // rows · columns elements
};

/// limits (f32) = max(limits, largest |g| of each row and column in the pieces); infinity where one
/// is not finite. Nothing for no pieces, here and below.
struct AdafactorLimitsArgs {
  std::vector<AdafactorPiece> pieces;
  Tensor limits;
};
void adafactor_limits(OpContext& context, const AdafactorLimitsArgs& args);

/// sums (f64) += Σ g² of each row and column over the pieces, in units that follow from the limits
/// over the whole matrix and its size alone: integers below 2^53, so every order of adding gives
/// the same bits. NaN where the limit is not finite.
struct AdafactorSumsArgs {
  std::vector<AdafactorPiece> pieces;
  Tensor limits, sums;
};
void adafactor_sums(OpContext& context, const AdafactorSumsArgs& args);

/// From the sums over whole matrices, with c = clip_factor, t = update and β = 1 − t^decay_rate:
///
///   r_i ← β r_i + (1 − β) (c² · mean over row i of g² + ε1), the columns' s_j likewise,
///
///   factors = √(mean of r / r_i) of rows and 1 / √s_j of columns:
///
/// the product of two factors is 1 / √v̂ of an element. moments, factors: f32, like limits. Nothing
/// if the skip slot is set.
struct AdafactorMomentsArgs {
  std::vector<AdafactorMatrix> matrices;
  Tensor limits, sums, moments, factors;
  Tensor scalars;
  double decay_rate = -0.8, epsilon1 = 1e-30;
};
void adafactor_moments(OpContext& context, const AdafactorMomentsArgs& args);

/// out (f32, flat) = g / √v̂ of a piece, g being clipped. With `second` (f32, flat) the elements are
/// of a vector, have a mean square of their own, and `second` is updated first by the rule of
/// AdafactorMomentsArgs; `factors` is then not read. If the skip slot is set: zeros.
struct AdafactorDirectionArgs {
  AdafactorPiece piece;
  Tensor factors, second;
  Tensor scalars;
  Tensor out;
  double decay_rate = -0.8, epsilon1 = 1e-30;
};
void adafactor_direction(OpContext& context, const AdafactorDirectionArgs& args);

/// What the update of a piece reads besides its direction. `weight` (optional) receives the new
/// value rounded to its dtype.
struct AdafactorUpdatePiece {
  AdafactorPiece piece;
  Tensor second;          // of a vector's elements, after the update; else undefined
  Tensor master, weight;  // flat
  /// States of reproducible sums over the whole logical tensor (f64 [kReproducibleSumSize]): of
  /// squared directions, and of squared masters (undefined: the step is not scaled by them).
  Tensor direction_squares, master_squares;
  int64_t elements = 0;  // of the logical tensor
  double weight_decay = 0;
  StepScalar learning_rate = StepScalar::learning_rate;
};

/// With u the direction (AdafactorDirectionArgs), RMS the root of the mean square over the logical
/// tensor and lr the slot that `learning_rate` names:
///
///   ρ = lr, or with `relative_step` min(lr, 1/√t);  α = ρ · max(ε2, RMS(p)), or ρ
///
///   p ← p · (1 − lr · weight_decay · weight_decay_factor) − α · u / max(1, RMS(u) /
///   clip_threshold)
///
/// Nothing if the skip slot is set.
struct AdafactorUpdateArgs {
  std::vector<AdafactorUpdatePiece> pieces;
  Tensor factors;
  Tensor scalars;
  double epsilon2 = 1e-3, clip_threshold = 1;
  bool relative_step = false;
};
void adafactor_update(OpContext& context, const AdafactorUpdateArgs& args);

}  // namespace viaduct
