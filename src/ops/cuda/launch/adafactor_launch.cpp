// Launches of Adafactor's steps.

#include <bit>

#include "ops/cuda/kernels/adafactor.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

int slot(StepScalar name) {
  return static_cast<int>(name);
}

/// Sums of this many terms, each below 2^bits, stay below 2^52.
int bits_of_terms(int64_t terms) {
  return 51 - std::bit_width(static_cast<uint64_t>(terms));
}

AdafactorPieceRows rows_of_piece(const AdafactorPiece& piece, const Tensor& limits,
                                 const Tensor& sums) {
  const AdafactorMatrix& matrix = piece.matrix;
  const int64_t row = matrix.place + piece.row, column = matrix.column_place + piece.column;
  AdafactorPieceRows rows{piece.gradient.data<float>(), piece.rows, piece.columns,
                          limits.data<float>() + row, limits.data<float>() + column};
  if (sums)
    rows.row_sums = sums.data<double>() + row, rows.column_sums = sums.data<double>() + column;
  rows.row_bits = bits_of_terms(matrix.columns), rows.column_bits = bits_of_terms(matrix.rows);
  return rows;
}

void launch_limits(OpContext& context, const Choice&, const AdafactorLimitsArgs& args, void*) {
  for (const AdafactorPiece& piece : args.pieces)
    adafactor_limits(rows_of_piece(piece, args.limits, {}), stream_of(context));
}

void launch_sums(OpContext& context, const Choice&, const AdafactorSumsArgs& args, void*) {
  for (const AdafactorPiece& piece : args.pieces)
    adafactor_sums(rows_of_piece(piece, args.limits, args.sums), stream_of(context));
}

void launch_moments(OpContext& context, const Choice&, const AdafactorMomentsArgs& args, void*) {
  AdafactorMoments moments{args.scalars.data<double>(),
                           slot(StepScalar::skip),
                           slot(StepScalar::clip_factor),
                           slot(StepScalar::update),
                           args.limits.data<float>(),
                           args.sums.data<double>(),
                           args.moments.data<float>(),
                           args.factors.data<float>(),
                           args.decay_rate,
                           args.epsilon1,
                           0,
                           {}};
  for (const AdafactorMatrix& m : args.matrices) {
    moments.matrix[moments.matrices++] = {m.rows,
                                          m.columns,
                                          m.place,
                                          m.column_place,
                                          bits_of_terms(m.columns),
                                          bits_of_terms(m.rows)};
    if (moments.matrices < AdafactorMoments::kMostMatrices && &m != &args.matrices.back()) continue;
    adafactor_moments(moments, stream_of(context));
    moments.matrices = 0;
  }
}

AdafactorDirectionRows direction_rows(const AdafactorPiece& piece, const Tensor& factors,
                                      const Tensor& second, const Tensor& scalars) {
  AdafactorDirectionRows rows{scalars.data<double>(),
                              slot(StepScalar::skip),
                              slot(StepScalar::clip_factor),
                              slot(StepScalar::update),
                              piece.gradient.data<float>(),
                              nullptr,
                              nullptr,
                              pointer_of<float>(second),
                              piece.rows,
                              piece.columns};
  if (second) return rows;
  rows.row_factors = factors.data<float>() + piece.matrix.place + piece.row;
  rows.column_factors = factors.data<float>() + piece.matrix.column_place + piece.column;
  return rows;
}

void launch_direction(OpContext& context, const Choice&, const AdafactorDirectionArgs& args,
                      void*) {
  adafactor_direction({direction_rows(args.piece, args.factors, args.second, args.scalars),
                       args.decay_rate, args.epsilon1, args.out.data<float>()},
                      stream_of(context));
}

void launch_update(OpContext& context, const Choice&, const AdafactorUpdateArgs& args, void*) {
  for (const AdafactorUpdatePiece& of : args.pieces) {
    adafactor_update(
        {direction_rows(of.piece, args.factors, of.second, args.scalars), slot(of.learning_rate),
         slot(StepScalar::weight_decay_factor), of.master.data<float>(),
         vector_of("adafactor_update", of.weight), of.direction_squares.data<double>(),
         pointer_of<double>(of.master_squares), of.elements, of.weight_decay, args.epsilon2,
         args.clip_threshold, args.relative_step},
        stream_of(context));
  }
}

}  // namespace

void add_adafactor_launches(OpTable& table) {
  table.adafactor_limits.launch = launch_limits;
  table.adafactor_sums.launch = launch_sums;
  table.adafactor_moments.launch = launch_moments;
  table.adafactor_direction.launch = launch_direction;
  table.adafactor_update.launch = launch_update;
}

}  // namespace viaduct::cuda
