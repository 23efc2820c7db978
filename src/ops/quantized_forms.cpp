#include "ops/quantized_forms.h"

#include "tensor/nvfp4.h"

namespace viaduct {
namespace {

constexpr int64_t kBlock = 128, kMx = 32;

/// Orientations of a and b.
struct Orientations {
  Orientation a, b;
};

Orientations orientations_of(GemmForm form) {
  constexpr auto kRows = Orientation::row_wise, kColumns = Orientation::column_wise;
  switch (form) {
    case GemmForm::forward:
      return {kRows, kRows};
    case GemmForm::data_gradient:
      return {kRows, kColumns};
    case GemmForm::weight_gradient:
      break;
  }
  return {kColumns, kColumns};
}

OperandForm quantized(DType element, Orientation orientation, const ScaleForm& scales) {
  return {kRowMajor, orientation, {}, element, scales};
}

}  // namespace

GemmForms quantized_forms(GemmForm form, const Quantization& quantization) {
  const bool of_weight = form != GemmForm::weight_gradient;
  if (!quantization.any() || !(of_weight || quantization.weight_gradient)) return {};
  const auto [a, b] = orientations_of(form);
  const DType a_element = form == GemmForm::forward ? quantization.forward : quantization.gradient;
  const DType b_element = quantization.forward;
  if (quantization.scaling == Scaling::tensor) {
    return {quantized(a_element, Orientation::row_wise, {}),
            quantized(b_element, Orientation::row_wise, {})};
  }
  if (quantization.scaling == Scaling::mx) {
    const ScaleForm scales{DType::e8m0, {1, kMx}};
    return {quantized(a_element, a, scales), quantized(b_element, b, scales)};
  }
  if (quantization.scaling == Scaling::nvfp4) {
    const ScaleForm line{DType::e4m3, {1, kNvfp4Group}};
    const ScaleForm square{DType::e4m3, {kNvfp4Group, kNvfp4Group}};
    GemmForms forms{quantized(a_element, a, line),
                    of_weight ? quantized(b_element, Orientation::row_wise, square)
                              : quantized(b_element, b, line)};
    forms.a.rotated = forms.b.rotated = !of_weight;
    return forms;
  }
  const ScaleForm line{DType::f32, {1, kBlock}}, square{DType::f32, {kBlock, kBlock}};
  return {quantized(a_element, a, line), of_weight
                                             ? quantized(b_element, Orientation::row_wise, square)
                                             : quantized(b_element, b, line)};
}

}  // namespace viaduct
