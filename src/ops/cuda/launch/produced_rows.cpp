#include "ops/cuda/launch/produced_rows.h"

namespace viaduct::cuda {

ProducedRows produced_rows(const ProducedForms& forms, void* workspace) {
  ProducedRows rows;
  if (forms.amax) {
    rows.magnitudes = static_cast<int>(forms.amax.dim(0));
    rows.partial = static_cast<uint32_t*>(workspace);
    rows.amax = forms.amax.data<float>();
  }
  if (!forms.operand) return rows;
  const OperandForm& form = forms.operand.form();
  const Tensor &values = forms.operand.values(), &scales = forms.operand.scales();
  rows.group_columns = static_cast<int>(form.scales->group.contracted);
  rows.e5m2 = form.element == DType::e5m2;
  rows.values = static_cast<uint8_t*>(values.raw()), rows.values_stride = values.stride(0);
  rows.wide = is_wide(rows.values) && rows.values_stride % 8 == 0;
  const bool powers = scales.dtype() == DType::e8m0;
  rows.scales = powers ? nullptr : scales.data<float>();
  rows.scale_powers = powers ? static_cast<uint8_t*>(scales.raw()) : nullptr;
  rows.scale_stride = scales.stride(0);
  return rows;
}

}  // namespace viaduct::cuda
