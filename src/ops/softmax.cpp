#include "ops/softmax.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// Checks for a matrix of f32 or f64 with dense rows.
void check_matrix(std::string_view op, std::string_view argument, const Tensor& tensor) {
  check_rank(op, argument, tensor, 2);
  check_dtype(op, argument, tensor, {DType::f32, DType::f64});
  check_dense_rows(op, argument, tensor);
}

/// Checks for another matrix of the shape and dtype of `x`.
void check_like(std::string_view op, std::string_view argument, const Tensor& tensor,
                const Tensor& x) {
  check_shape(op, argument, tensor, x.shape());
  check_dtype(op, argument, tensor, {x.dtype()});
  check_dense_rows(op, argument, tensor);
}

/// Checks for one value per row of `x`.
void check_vector(std::string_view op, std::string_view argument, const Tensor& tensor, DType dtype,
                  const Tensor& x) {
  check_shape(op, argument, tensor, {x.dim(0)});
  check_dtype(op, argument, tensor, {dtype});
  check_contiguous(op, argument, tensor);
}

void check_columns(std::string_view op, int64_t columns, int64_t first_column, const Tensor& x) {
  VIADUCT_CHECK(ShapeError, columns >= 0 && columns <= x.dim(1),
                "{}: expected columns in [0, {}], got {}", op, x.dim(1), columns);
  VIADUCT_CHECK(ShapeError, first_column >= 0, "{}: expected first_column ≥ 0, got {}", op,
                first_column);
}

void check_cap(std::string_view op, double cap) {
  VIADUCT_CHECK(ShapeError, cap > 0, "{}: expected cap > 0, got {}", op, cap);
}

}  // namespace

void soft_cap(OpContext& context, const SoftCapArgs& args) {
  constexpr std::string_view kOp = "soft_cap";
  check_matrix(kOp, "x", args.x);
  check_like(kOp, "out", args.out, args.x);
  check_cap(kOp, args.cap);
  dispatch(context, kOp, context.ops.soft_cap, args);
}

void soft_cap_backward(OpContext& context, const SoftCapBackwardArgs& args) {
  constexpr std::string_view kOp = "soft_cap_backward";
  check_matrix(kOp, "z", args.z);
  check_like(kOp, "d_out", args.d_out, args.z);
  check_like(kOp, "d_in", args.d_in, args.z);
  check_cap(kOp, args.cap);
  dispatch(context, kOp, context.ops.soft_cap_backward, args);
}

void row_largest(OpContext& context, const RowLargestArgs& args) {
  constexpr std::string_view kOp = "row_largest";
  check_matrix(kOp, "x", args.x);
  check_vector(kOp, "out", args.out, args.x.dtype(), args.x);
  check_columns(kOp, args.columns, 0, args.x);
  dispatch(context, kOp, context.ops.row_largest, args);
}

void row_exponential(OpContext& context, const RowExponentialArgs& args) {
  constexpr std::string_view kOp = "row_exponential";
  check_matrix(kOp, "x", args.x);
  check_vector(kOp, "shift", args.shift, args.x.dtype(), args.x);
  check_like(kOp, "out", args.out, args.x);
  check_columns(kOp, args.columns, 0, args.x);
  dispatch(context, kOp, context.ops.row_exponential, args);
}

void row_sum(OpContext& context, const RowSumArgs& args) {
  constexpr std::string_view kOp = "row_sum";
  check_matrix(kOp, "x", args.x);
  check_vector(kOp, "out", args.out, args.x.dtype(), args.x);
  check_columns(kOp, args.columns, 0, args.x);
  dispatch(context, kOp, context.ops.row_sum, args);
}

void row_divide(OpContext& context, const RowDivideArgs& args) {
  constexpr std::string_view kOp = "row_divide";
  check_matrix(kOp, "x", args.x);
  check_vector(kOp, "divisor", args.divisor, args.x.dtype(), args.x);
  check_like(kOp, "out", args.out, args.x);
  dispatch(context, kOp, context.ops.row_divide, args);
}

void row_pick(OpContext& context, const RowPickArgs& args) {
  constexpr std::string_view kOp = "row_pick";
  check_matrix(kOp, "x", args.x);
  check_vector(kOp, "targets", args.targets, DType::i32, args.x);
  check_vector(kOp, "out", args.out, args.x.dtype(), args.x);
  check_columns(kOp, args.columns, args.first_column, args.x);
  dispatch(context, kOp, context.ops.row_pick, args);
}

void softmax_loss_backward(OpContext& context, const SoftmaxLossBackwardArgs& args) {
  constexpr std::string_view kOp = "softmax_loss_backward";
  check_matrix(kOp, "probabilities", args.probabilities);
  check_vector(kOp, "targets", args.targets, DType::i32, args.probabilities);
  check_vector(kOp, "weight", args.weight, DType::f32, args.probabilities);
  check_shape(kOp, "factor", args.factor, {1});
  check_dtype(kOp, "factor", args.factor, {DType::f64});
  check_like(kOp, "out", args.out, args.probabilities);
  check_columns(kOp, args.columns, args.first_column, args.probabilities);
  dispatch(context, kOp, context.ops.softmax_loss_backward, args);
}

}  // namespace viaduct
