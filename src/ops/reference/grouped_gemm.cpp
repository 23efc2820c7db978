#include "ops/grouped_gemm.h"

#include <cmath>

#include "ops/quantized_forms.h"
#include "ops/reference/reference.h"
#include "ops/reference/scaled_operand.h"

namespace viaduct::reference {
namespace {

/// The numbers that the operand of one expert stands for, f64.
Tensor exact_operand(const Tensor& matrix, const OperandForm& form, const Tensor& amax,
                     bool magnitudes) {
  const Operand operand{
      form, matrix.dtype(), matrix.shape(),
      host_tensor(form.element.value_or(matrix.dtype()), values_shape(form, matrix.shape())),
      host_tensor(form.scales->dtype, scales_shape(form, matrix.shape()))};
  quantize({matrix, operand, amax});
  const Tensor rounded = dequantized(operand);
  const Tensor exact = host_tensor(DType::f64, matrix.shape());
  for (int64_t i = 0; i < exact.elements(); ++i) {
    const double value = rounded.data<float>()[i];
    exact.data<double>()[i] = magnitudes ? std::fabs(value) : value;
  }
  return exact;
}

}  // namespace

void scaled_grouped_gemm(const GroupedGemmArgs& args, bool magnitudes) {
  const GemmForms forms = quantized_forms(args.form, args.quantization);
  const int32_t* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e + 1 < args.offsets.dim(0); ++e) {
    const auto own = [&](const Tensor& amax) { return amax ? amax.slice(0, e, 1) : Tensor(); };
    GemmArgs product = product_of_expert(args, e, offsets[e], offsets[e + 1]);
    product.a = exact_operand(product.a.tensor(), forms.a, own(args.a_amax), magnitudes);
    product.b = exact_operand(product.b.tensor(), forms.b, own(args.b_amax), magnitudes);
    gemm(product);
  }
}

void grouped_gemm(const GroupedGemmArgs& args) {
  const int32_t* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e + 1 < args.offsets.dim(0); ++e)
    gemm(product_of_expert(args, e, offsets[e], offsets[e + 1]));
}

}  // namespace viaduct::reference
