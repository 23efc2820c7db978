#include "nn/quantization_log.h"

namespace viaduct {

void QuantizationLog::add(OpContext& context, const std::string& tensor, const Tensor& matrix,
                          const OperandForm& form, const Tensor& amax,
                          const StochasticRounding& rounding) {
  if (!form.element || matrix.raw() == nullptr) return;
  // Memory of its own: the device's is planned for steps that measure nothing.
  const Shape shape = matrix.shape();
  const bool beside = has_matrix_scale(form) && !has_one_scale(form);
  const Operand operand(form, matrix.dtype(), shape,
                        host_tensor(*form.element, values_shape(form, shape)),
                        host_tensor(form.scales->dtype, scales_shape(form, shape)),
                        beside ? host_tensor(DType::f32, {1}) : Tensor());
  ConvertOperandArgs args{matrix, operand};
  if (has_matrix_scale(form)) args.amax = amax.slice(0, 0, 1);
  if (form.element == DType::e2m1x2) args.rounding = rounding;
  convert_operand(context, args);
  add(tensor, matrix, operand);
}

void QuantizationLog::add(const std::string& tensor, const Tensor& matrix, const Operand& operand) {
  if (!operand.form().element || matrix.raw() == nullptr) return;
  tensors_[tensor].merge(reference::quantization_error(matrix, operand));
}

}  // namespace viaduct
