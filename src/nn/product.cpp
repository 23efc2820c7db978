#include "nn/product.h"

#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

std::string scales_name(std::string_view name) {
  return std::string(name) + " scales";
}

}  // namespace

void run_product(OpContext& context, GemmArgs args) {
  const GemmForms wanted = gemm_operand_forms(context.ops, gemm_request(args));
  args.a = operand_in(context, args.a, wanted.a, MemoryTag::activations);
  args.b = operand_in(context, args.b, wanted.b, MemoryTag::activations);
  gemm(context, args);
}

GemmForms waiting_forms(const RankContext& context, int64_t n, int64_t k) {
  GemmRequest request{GemmForm::weight_gradient, context.settings.precision.activation};
  request.n = n, request.k = k;
  GemmForms forms = gemm_operand_forms(context.ops.ops, request);
  for (OperandForm* form : {&forms.a, &forms.b})
    if (!form->shows_shape()) *form = {};
  return forms;
}

void keep_operand(RankContext& context, SavedStore& saved, const void* owner, std::string_view name,
                  const Tensor& matrix, const OperandForm& form) {
  if (form.plain() || !saved.keeps()) return saved.keep(owner, name, matrix);
  VIADUCT_CHECK(ShapeError, matrix.dtype() == context.settings.precision.activation,
                "\"{}\" is kept as {}: expected the activation format {}, got {}", name,
                describe(form), dtype_name(context.settings.precision.activation),
                describe(matrix));
  const Operand operand = operand_in(context.ops, matrix, form, saved.tag());
  saved.keep(owner, name, operand.values());
  if (operand.scales()) saved.keep(owner, scales_name(name), operand.scales());
}

Operand take_operand(const RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const OperandForm& form) {
  const Tensor values = saved.take(owner, name);
  if (form.plain()) return values;
  const Tensor scales = form.scales ? saved.take(owner, scales_name(name)) : Tensor();
  const bool transposed =
      form.layout == kContractedLast && form.orientation == Orientation::column_wise;
  const Shape shape = transposed ? Shape{values.dim(1), values.dim(0)} : values.shape();
  return {form, context.settings.precision.activation, shape, values, scales};
}

}  // namespace viaduct
