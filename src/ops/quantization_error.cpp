#include "ops/quantization_error.h"

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_made_here(std::string_view op, const QuantizationErrorArgs& args, int64_t matrices) {
  const bool whole = has_matrix_scale(args.form);
  VIADUCT_CHECK(ShapeError, whole == args.amax.defined(), "{}: expected {} for operands {}, got {}",
                op, whole ? fmt::format("amax f32 [{}]", matrices) : "no amax", describe(args.form),
                describe(args.amax));
  if (whole) {
    check_shape(op, "amax", args.amax, {matrices});
    check_dtype(op, "amax", args.amax, {DType::f32});
    check_contiguous(op, "amax", args.amax);
  }
  VIADUCT_CHECK(ShapeError, args.offsets || matrices == 1,
                "{}: operands of {} matrices without offsets are made earlier", op, matrices);
  if (!args.rounding.defined()) return;
  check_shape(op, "token_index", args.rounding.token_index,
              {args.offsets ? 1 : args.matrix.dim(0)});
  check_dtype(op, "token_index", args.rounding.token_index, {DType::i64});
  check_contiguous(op, "token_index", args.rounding.token_index);
  VIADUCT_CHECK(
      ShapeError,
      args.form.element == DType::e2m1x2 && !args.rounding.features.empty() &&
          args.rounding.features.front().begin == 0,
      "{}: stochastic rounding is for elements of e2m1x2 with features from column 0 on, got {}",
      op, describe(args.form));
}

void check_made_earlier(std::string_view op, const QuantizationErrorArgs& args, int64_t matrices) {
  const Operand& operand = args.operand;
  VIADUCT_CHECK(ShapeError,
                operand.shape() == args.matrix.shape() && operand.count() == matrices &&
                    !args.offsets && !args.amax && !args.rounding.defined(),
                "{}: expected a stack of {} operands of {}, without offsets, got {} of {}", op,
                matrices, describe(args.matrix), operand.count(), describe(operand));
  check_contiguous(op, "values", operand.values());
  check_contiguous(op, "scales", operand.scales());
}

}  // namespace

double QuantizationError::relative_error() const {
  return square > 0 ? std::sqrt(error_square / square) : 0;
}

void QuantizationError::merge(const QuantizationError& other) {
  least_scale = std::min(least_scale, other.least_scale);
  most_scale = std::max(most_scale, other.most_scale);
  amax = std::max(amax, other.amax);
  elements += other.elements, nonzero += other.nonzero;
  underflows += other.underflows, overflows += other.overflows;
  not_finite += other.not_finite;
  square += other.square, error_square += other.error_square;
}

/// An operand that is made here is written, and read again.
Cost cost_of(const QuantizationErrorArgs& args) {
  constexpr double kFlopsOfElement = 8;
  Cost cost = make_cost(DType::f64, kFlopsOfElement * count(args.matrix),
                        {&args.matrix, &args.offsets, &args.amax}, {&args.sums});
  if (args.operand) {
    cost.bytes_read += args.operand.bytes();
    return cost;
  }
  const Shape& shape = args.matrix.shape();
  const int64_t made =
      values_shape(args.form, shape).elements() * dtype_bytes(*args.form.element) +
      scales_shape(args.form, shape).elements() * dtype_bytes(args.form.scales->dtype);
  cost.bytes_read += args.matrix.bytes() + made;
  cost.bytes_written += made;
  return cost;
}

QuantizationError error_of_sums(const double* sums) {
  QuantizationError error;
  if (sums[kErrorElements] == 0) return error;
  error.elements = sums[kErrorElements], error.nonzero = sums[kErrorNonzero];
  error.underflows = sums[kErrorUnderflows], error.overflows = sums[kErrorOverflows];
  error.not_finite = sums[kErrorNotFinite];
  error.square = sums[kErrorSquare], error.error_square = sums[kErrorErrorSquare];
  error.amax = sums[kErrorAmax];
  error.least_scale = sums[kErrorLeastScale], error.most_scale = sums[kErrorMostScale];
  return error;
}

void quantization_error(OpContext& context, const QuantizationErrorArgs& args) {
  constexpr std::string_view kOp = "quantization_error";
  check_rank(kOp, "matrix", args.matrix, 2);
  check_dtype(kOp, "matrix", args.matrix, {DType::f32, DType::bf16, DType::f16});
  check_dense_rows(kOp, "matrix", args.matrix);
  check_rank(kOp, "sums", args.sums, 2);
  check_dtype(kOp, "sums", args.sums, {DType::f64});
  check_contiguous(kOp, "sums", args.sums);
  const int64_t matrices = args.sums.dim(0);
  check_shape(kOp, "sums", args.sums, {matrices, kErrorSums});
  if (args.offsets) {
    check_shape(kOp, "offsets", args.offsets, {matrices + 1});
    check_dtype(kOp, "offsets", args.offsets, {DType::i32});
    check_contiguous(kOp, "offsets", args.offsets);
  } else {
    VIADUCT_CHECK(ShapeError, matrices >= 1 && args.matrix.dim(0) % matrices == 0,
                  "{}: {} rows do not divide by {} matrices", kOp, args.matrix.dim(0), matrices);
  }
  const OperandForm& form = measured_form(args);
  VIADUCT_CHECK(
      ShapeError, form.element && form.scales && form.layout == kRowMajor && !form.rotated,
      "{}: expected a quantized row-major form that is not rotated, got {}", kOp, describe(form));
  args.operand ? check_made_earlier(kOp, args, matrices) : check_made_here(kOp, args, matrices);
  dispatch(context, kOp, context.ops.quantization_error, args);
}

}  // namespace viaduct
