#include "ops/produced_forms.h"

#include "ops/checks.h"
#include "ops/convert_operand.h"
#include "ops/costs.h"
#include "ops/table.h"
#include "tensor/hadamard.h"

namespace viaduct {
namespace {

/// The part of a request that the backend makes.
FormsRequest made_of(const OpTable& ops, const FormsRequest& request) {
  if (ops.produced_forms != nullptr) return ops.produced_forms(request, ops.traits);
  return {request.dtype, request.matrix};
}

}  // namespace

ProducedForms allocate_forms(const OpContext& context, const FormsRequest& request, MemoryTag tag) {
  const FormsRequest made = made_of(context.ops, request);
  ProducedForms forms;
  if (made.magnitudes > 0) forms.amax = context.allocate(DType::f32, {made.magnitudes}, tag);
  if (!made.operand.plain())
    forms.operand = allocate_operand(context, made.operand, made.dtype, made.matrix, tag);
  return forms;
}

void check_produced_forms(std::string_view op, const OpTable& ops, const ProducedForms& forms,
                          const Tensor& matrix, bool product) {
  if (!forms.any()) return;
  check_rank(op, "matrix with other forms", matrix, 2);
  FormsRequest request{matrix.dtype(), matrix.shape()};
  request.product = product;
  if (forms.amax) {
    check_dtype(op, "amax", forms.amax, {DType::f32});
    check_rank(op, "amax", forms.amax, 1);
    check_contiguous(op, "amax", forms.amax);
    request.magnitudes = static_cast<int>(forms.amax.dim(0));
    VIADUCT_CHECK(ShapeError, request.magnitudes == 1 || request.magnitudes == 2,
                  "{}: amax: expected f32 [1] or [2], got {}", op, describe(forms.amax));
    VIADUCT_CHECK(ShapeError, request.magnitudes == 1 || matrix.dim(0) % kRotated == 0,
                  "{}: amax of the rotated matrix: {} rows are rotated together, got {}", op,
                  kRotated, describe(matrix));
  }
  if (forms.operand) {
    const OperandForm& form = request.operand = forms.operand.form();
    VIADUCT_CHECK(ShapeError,
                  forms.operand.dtype() == matrix.dtype() &&
                      forms.operand.shape() == matrix.shape() && form.scales &&
                      !has_matrix_scale(form) && !form.rotated && form.scales->group.kept == 1 &&
                      form.orientation == Orientation::row_wise,
                  "{}: expected a row-wise form of {} with scales of groups, got {}", op,
                  describe(matrix), describe(forms.operand));
    check_contiguous(op, "values of the operand", forms.operand.values());
    check_contiguous(op, "scales of the operand", forms.operand.scales());
  }
  const FormsRequest made = made_of(ops, request);
  VIADUCT_CHECK(
      DeviceError, made.magnitudes == request.magnitudes && made.operand == request.operand,
      "{}: {} does not make {} of {} besides the matrix", op, ops.traits.name,
      forms.operand ? describe(forms.operand.form()) : "the largest magnitude", describe(matrix));
}

Cost cost_of(const ProducedForms& forms, const Tensor& matrix) {
  Cost cost;
  if (forms.amax) {
    add_vector_flops(cost, matrix.dtype(),
                     static_cast<double>(matrix.elements() * forms.amax.dim(0)));
    cost.bytes_written += forms.amax.bytes();
  }
  if (forms.operand) cost.bytes_written += forms.operand.bytes();
  return cost;
}

}  // namespace viaduct
