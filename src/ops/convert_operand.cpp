#include "ops/convert_operand.h"

#include "ops/checks.h"
#include "ops/table.h"

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
  dispatch(context, kOp, context.ops.convert_operand, args);
}

Operand allocate_operand(const OpContext& context, const OperandForm& form, DType dtype,
                         const Shape& matrix, MemoryTag tag) {
  if (form.plain()) return context.allocate(dtype, matrix, tag);
  Tensor scales;
  if (form.scales) scales = context.allocate(form.scales->dtype, scales_shape(form, matrix), tag);
  return {form, dtype, matrix,
          context.allocate(form.element.value_or(dtype), values_shape(form, matrix), tag), scales};
}

Operand operand_in(OpContext& context, const Operand& operand, const OperandForm& form,
                   MemoryTag tag) {
  if (form.plain() || !operand.form().plain()) return operand;
  const Operand out = allocate_operand(context, form, operand.dtype(), operand.shape(), tag);
  convert_operand(context, {operand.tensor(), out});
  return out;
}

}  // namespace viaduct
