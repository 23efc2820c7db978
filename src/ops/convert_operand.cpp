#include "ops/convert_operand.h"

#include "ops/checks.h"
#include "ops/table.h"
#include "tensor/hadamard.h"

namespace viaduct {

void convert_operand(OpContext& context, const ConvertOperandArgs& args) {
  constexpr std::string_view kOp = "convert_operand";
  check_rank(kOp, "matrix", args.matrix, 2);
  check_floating(kOp, "matrix", args.matrix);
  check_dense_rows(kOp, "matrix", args.matrix);
  VIADUCT_CHECK(ShapeError,
                args.out.defined() && args.out.dtype() == args.matrix.dtype() &&
                    args.out.shape() == args.matrix.shape(),
                "{}: expected out for {}, got {}", kOp, describe(args.matrix), describe(args.out));
  VIADUCT_CHECK(ShapeError, !args.out.form().plain(),
                "{}: out is row-major like the matrix; use `copy` to copy tensors", kOp);
  check_contiguous(kOp, "values of out", args.out.values());
  if (args.out.scales()) check_contiguous(kOp, "scales of out", args.out.scales());
  if (args.out.matrix_scale())
    check_contiguous(kOp, "matrix scale of out", args.out.matrix_scale());
  const bool whole = has_matrix_scale(args.out.form());
  VIADUCT_CHECK(ShapeError, whole == args.amax.defined(), "{}: expected {} for out {}, got {}", kOp,
                whole ? "amax f32 [1]" : "no amax", describe(args.out.form()), describe(args.amax));
  if (whole) {
    check_shape(kOp, "amax", args.amax, {1});
    check_dtype(kOp, "amax", args.amax, {DType::f32});
  }
  const OperandForm& form = args.out.form();
  if (form.rotated) {
    const int64_t contracted = args.matrix.dim(form.orientation == Orientation::row_wise ? 1 : 0);
    VIADUCT_CHECK(ShapeError, contracted % kRotated == 0,
                  "{}: {} elements are rotated together, got {} along the contracted dim of {}",
                  kOp, kRotated, contracted, describe(args.out));
  }
  if (args.rounding.defined()) {
    check_shape(kOp, "token_index", args.rounding.token_index, {args.matrix.dim(0)});
    check_dtype(kOp, "token_index", args.rounding.token_index, {DType::i64});
    check_contiguous(kOp, "token_index", args.rounding.token_index);
    VIADUCT_CHECK(
        ShapeError,
        form.element == DType::e2m1x2 && !args.rounding.features.empty() &&
            args.rounding.features.front().begin == 0,
        "{}: stochastic rounding is for elements of e2m1x2 with features from column 0 on, got {}",
        kOp, describe(args.out));
  }
  dispatch(context, kOp, context.ops.convert_operand, args);
}

void expand_operand(OpContext& context, const ExpandOperandArgs& args) {
  constexpr std::string_view kOp = "expand_operand";
  check_rank(kOp, "out", args.out, 2);
  check_dtype(kOp, "out", args.out, {DType::bf16});
  check_contiguous(kOp, "out", args.out);
  const OperandForm& form = args.operand.form();
  VIADUCT_CHECK(ShapeError,
                args.operand.defined() && form.scales && !has_matrix_scale(form) && !form.rotated,
                "{}: expected values with scales of groups, got {}", kOp, describe(args.operand));
  check_shape(kOp, "out", args.out, args.operand.shape());
  check_contiguous(kOp, "values", args.operand.values());
  check_contiguous(kOp, "scales", args.operand.scales());
  dispatch(context, kOp, context.ops.expand_operand, args);
}

Operand allocate_operand(const OpContext& context, const OperandForm& form, DType dtype,
                         const Shape& matrix, MemoryTag tag) {
  if (form.plain()) return context.allocate(dtype, matrix, tag);
  return allocate_stack(context, 1, form, dtype, matrix, tag);
}

Operand allocate_stack(const OpContext& context, int64_t count, const OperandForm& form,
                       DType dtype, const Shape& matrix, MemoryTag tag) {
  const auto all = [&](DType of, Shape shape) {
    shape[0] *= count;
    return context.allocate(of, shape, tag);
  };
  Tensor scales, matrix_scale;
  if (has_matrix_scale(form) && !has_one_scale(form)) matrix_scale = all(DType::f32, {1});
  if (form.scales) scales = all(form.scales->dtype, scales_shape(form, matrix));
  return Operand::stack(count, form, dtype, matrix,
                        all(form.element.value_or(dtype), values_shape(form, matrix)), scales,
                        matrix_scale);
}

Operand operand_in(OpContext& context, const Operand& operand, const OperandForm& form,
                   MemoryTag tag, const Tensor& amax, const StochasticRounding& rounding) {
  if (form.plain() || !operand.form().plain()) return operand;
  const Operand out = allocate_operand(context, form, operand.dtype(), operand.shape(), tag);
  ConvertOperandArgs args{operand.tensor(), out};
  if (has_matrix_scale(form))
    args.amax = amax && amax.elements() == 2 ? amax.slice(0, form.rotated ? 1 : 0, 1) : amax;
  if (form.element == DType::e2m1x2) args.rounding = rounding;
  convert_operand(context, args);
  return out;
}

}  // namespace viaduct
