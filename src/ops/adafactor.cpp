#include "ops/adafactor.h"

#include "ops/checks.h"
#include "ops/optimizer.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_flat(std::string_view op, std::string_view argument, const Tensor& tensor,
                int64_t elements) {
  check_dtype(op, argument, tensor, {DType::f32});
  check_shape(op, argument, tensor, {elements});
  check_contiguous(op, argument, tensor);
}

/// An array over matrices: flat.
void check_values(std::string_view op, std::string_view argument, const Tensor& tensor, DType dtype,
                  int64_t elements) {
  check_dtype(op, argument, tensor, {dtype});
  check_shape(op, argument, tensor, {elements});
  check_contiguous(op, argument, tensor);
}

void check_scalars(std::string_view op, const Tensor& scalars) {
  check_shape(op, "scalars", scalars, {kStepScalars});
  check_dtype(op, "scalars", scalars, {DType::f64});
}

void check_matrix(std::string_view op, const AdafactorMatrix& matrix, int64_t values) {
  const auto inside = [&](int64_t place, int64_t count) {
    return place >= 0 && count > 0 && place + count <= values;
  };
  VIADUCT_CHECK(ShapeError,
                inside(matrix.place, matrix.rows) && inside(matrix.column_place, matrix.columns),
                "{}: a matrix of {} rows at {} and {} columns at {} is not inside {} values", op,
                matrix.rows, matrix.place, matrix.columns, matrix.column_place, values);
}

/// `values`: of the arrays over matrices; −1: the piece is of a vector, and reads none.
void check_piece(std::string_view op, const AdafactorPiece& piece, int64_t values) {
  check_flat(op, "gradient", piece.gradient, piece.rows * piece.columns);
  if (values < 0) return;
  check_matrix(op, piece.matrix, values);
  VIADUCT_CHECK(ShapeError,
                piece.row >= 0 && piece.row + piece.rows <= piece.matrix.rows &&
                    piece.column >= 0 && piece.column + piece.columns <= piece.matrix.columns,
                "{}: {} rows at {} and {} columns at {} are not inside a matrix [{}, {}]", op,
                piece.rows, piece.row, piece.columns, piece.column, piece.matrix.rows,
                piece.matrix.columns);
}

}  // namespace

void adafactor_limits(OpContext& context, const AdafactorLimitsArgs& args) {
  constexpr std::string_view op = "adafactor_limits";
  if (args.pieces.empty()) return;
  check_values(op, "limits", args.limits, DType::f32, args.limits.elements());
  for (const AdafactorPiece& piece : args.pieces) check_piece(op, piece, args.limits.elements());
  dispatch(context, op, context.ops.adafactor_limits, args);
}

void adafactor_sums(OpContext& context, const AdafactorSumsArgs& args) {
  constexpr std::string_view op = "adafactor_sums";
  if (args.pieces.empty()) return;
  check_values(op, "limits", args.limits, DType::f32, args.limits.elements());
  check_values(op, "sums", args.sums, DType::f64, args.limits.elements());
  for (const AdafactorPiece& piece : args.pieces) check_piece(op, piece, args.limits.elements());
  dispatch(context, op, context.ops.adafactor_sums, args);
}

void adafactor_moments(OpContext& context, const AdafactorMomentsArgs& args) {
  constexpr std::string_view op = "adafactor_moments";
  if (args.matrices.empty()) return;
  const int64_t values = args.limits.elements();
  check_values(op, "limits", args.limits, DType::f32, values);
  check_values(op, "sums", args.sums, DType::f64, values);
  check_values(op, "moments", args.moments, DType::f32, values);
  check_values(op, "factors", args.factors, DType::f32, values);
  for (const AdafactorMatrix& matrix : args.matrices) check_matrix(op, matrix, values);
  check_scalars(op, args.scalars);
  dispatch(context, op, context.ops.adafactor_moments, args);
}

void adafactor_direction(OpContext& context, const AdafactorDirectionArgs& args) {
  constexpr std::string_view op = "adafactor_direction";
  check_piece(op, args.piece, args.second ? -1 : args.factors.elements());
  const int64_t elements = args.piece.gradient.elements();
  check_flat(op, "out", args.out, elements);
  if (args.second) check_flat(op, "second", args.second, elements);
  check_scalars(op, args.scalars);
  dispatch(context, op, context.ops.adafactor_direction, args);
}

void adafactor_update(OpContext& context, const AdafactorUpdateArgs& args) {
  constexpr std::string_view op = "adafactor_update";
  if (args.pieces.empty()) return;
  for (const AdafactorUpdatePiece& of : args.pieces) {
    check_piece(op, of.piece, of.second ? -1 : args.factors.elements());
    const int64_t elements = of.piece.gradient.elements();
    check_flat(op, "master", of.master, elements);
    if (of.second) check_flat(op, "second", of.second, elements);
    if (of.weight) {
      check_dtype(op, "weight", of.weight, {DType::f32, DType::bf16, DType::f16});
      check_shape(op, "weight", of.weight, {elements});
      check_contiguous(op, "weight", of.weight);
    }
    for (const Tensor& state : {of.direction_squares, of.master_squares}) {
      if (!state) continue;
      check_dtype(op, "squares", state, {DType::f64});
      check_shape(op, "squares", state, {kReproducibleSumSize});
    }
  }
  check_scalars(op, args.scalars);
  dispatch(context, op, context.ops.adafactor_update, args);
}

}  // namespace viaduct
