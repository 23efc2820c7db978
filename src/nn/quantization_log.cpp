#include "nn/quantization_log.h"

namespace viaduct {
namespace {

using reference::QuantizationError;

/// `matrix` in `form`, in memory of its own: the device's is planned for steps that measure
/// nothing.
Operand made(OpContext& context, const Tensor& matrix, const OperandForm& form, const Tensor& amax,
             const StochasticRounding& rounding) {
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
  return operand;
}

}  // namespace

bool is_worse(const QuantizationError& a, const QuantizationError& b) {
  const bool a_bad = a.not_finite > 0, b_bad = b.not_finite > 0;
  if (a_bad != b_bad) return a_bad;
  return a.relative_error() > b.relative_error();
}

void MeasuredOperand::merge(const MeasuredOperand& other) {
  all.merge(other.all);
  if (other.worst_expert < 0) return;
  if (worst_expert >= 0 && !is_worse(other.worst, worst)) return;
  worst_expert = other.worst_expert;
  worst = other.worst;
}

void QuantizationLog::add(OpContext& context, const std::string& tensor, const Tensor& matrix,
                          const OperandForm& form, const Tensor& amax,
                          const StochasticRounding& rounding) {
  if (!form.element || matrix.raw() == nullptr) return;
  add(tensor, matrix, made(context, matrix, form, amax, rounding));
}

void QuantizationLog::add(const std::string& tensor, const Tensor& matrix, const Operand& operand) {
  if (!operand.form().element || matrix.raw() == nullptr) return;
  tensors_[tensor].all.merge(reference::quantization_error(matrix, operand));
}

void QuantizationLog::add_expert(const std::string& tensor, int64_t expert,
                                 const QuantizationError& measured) {
  tensors_[tensor].merge({measured, expert, measured});
}

void QuantizationLog::add_rows(OpContext& context, const std::string& tensor,
                               const GroupedGemmArgs& args, int64_t first) {
  const OperandForm form = expert_forms(args).a;
  if (!form.element || args.a.raw() == nullptr) return;
  const auto* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e + 1 < args.offsets.dim(0); ++e) {
    const int64_t rows = offsets[e + 1] - offsets[e];
    if (rows == 0) continue;
    StochasticRounding rounding = rounding_of_expert(args, e);
    if (rounding.defined()) {
      const int64_t token = args.rounding.token_index.data<int64_t>()[0];
      rounding.token_index = host_tensor(DType::i64, {rows});
      for (int64_t r = 0; r < rows; ++r) rounding.token_index.data<int64_t>()[r] = token + r;
    }
    const Tensor matrix = args.a.slice(0, offsets[e], rows);
    const Tensor amax = args.a_amax ? args.a_amax.slice(0, e, 1) : Tensor();
    add_expert(tensor, first + e,
               reference::quantization_error(matrix, made(context, matrix, form, amax, rounding)));
  }
}

void QuantizationLog::add_weights(const std::string& tensor, const Tensor& weights,
                                  const Operand& operands, int64_t first) {
  if (!operands.form().element || weights.raw() == nullptr) return;
  const int64_t rows = weights.dim(0) / operands.count();
  for (int64_t e = 0; e < operands.count(); ++e)
    add_expert(tensor, first + e,
               reference::quantization_error(weights.slice(0, e * rows, rows), operands.member(e)));
}

}  // namespace viaduct
