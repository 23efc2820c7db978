#pragma once
// The steps of Adafactor (ops/adafactor.h): limits, sums and elementwise steps with the cpu's bits.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// A dense rectangle of a matrix with what is kept of its rows and columns, from its first ones on.
struct AdafactorPieceRows {
  const float* gradient;
  int64_t rows, columns;
  float *row_limits, *column_limits;
  double *row_sums, *column_sums;  // not of limits
  /// 51 minus the bits of the number of terms of a row's sum, and of a column's.
  int row_bits, column_bits;
};
void adafactor_limits(const AdafactorPieceRows& piece, Stream stream);
void adafactor_sums(const AdafactorPieceRows& piece, Stream stream);

struct AdafactorMatrixPlaces {
  int64_t rows, columns, place, column_place;
  int row_bits, column_bits;
};
struct AdafactorMoments {
  static constexpr int kMostMatrices = 64;
  const double* scalars;
  int skip, clip_factor, update;
  const float* limits;
  const double* sums;
  float *moments, *factors;
  double decay_rate, epsilon1;
  int matrices;
  AdafactorMatrixPlaces matrix[kMostMatrices];
};
void adafactor_moments(const AdafactorMoments& args, Stream stream);

/// The inputs of a piece's direction: factors of its rows and columns, or the mean squares
/// of its elements.
struct AdafactorDirectionRows {
  const double* scalars;
  int skip, clip_factor, update;
  const float* gradient;
  const float *row_factors, *column_factors;
  float* second;  // or null
  int64_t rows, columns;
};

struct AdafactorDirection {
  AdafactorDirectionRows of;  // `second` is updated first
  double decay_rate, epsilon1;
  float* out;
};
void adafactor_direction(const AdafactorDirection& args, Stream stream);

struct AdafactorUpdate {
  AdafactorDirectionRows of;
  int learning_rate, weight_decay_factor;
  float* master;
  Vector weight;                                     // may be absent
  const double *direction_squares, *master_squares;  // states of sums; the second may be null
  int64_t elements;                                  // of the logical tensor
  double weight_decay, epsilon2, clip_threshold;
  bool relative_step;
};
void adafactor_update(const AdafactorUpdate& args, Stream stream);

}  // namespace viaduct::cuda
