#include "ops/cuda/produced_choose.h"

#include <bit>

#include "ops/cuda/kernels/produced_rows.h"

namespace viaduct::cuda {
namespace {

/// Groups of a row that neighbouring threads have, each with 8 elements.
bool fits_threads(const OperandExtent& group) {
  return group.kept == 1 && group.contracted >= 8 && group.contracted <= kMostGroupColumns &&
         std::has_single_bit(static_cast<uint64_t>(group.contracted));
}

bool makes_codes(const OperandForm& form) {
  return form.layout == kRowMajor && form.orientation == Orientation::row_wise && !form.rotated &&
         (form.element == DType::e4m3 || form.element == DType::e5m2) && form.scales &&
         (form.scales->dtype == DType::f32 || form.scales->dtype == DType::e8m0) &&
         fits_threads(form.scales->group);
}

}  // namespace

FormsRequest produced_forms(const FormsRequest& request, const Traits&) {
  FormsRequest made = request;
  const bool has_kernels = request.dtype != DType::f64;
  if (!has_kernels) made.magnitudes = 0;
  if (!has_kernels || !makes_codes(request.operand)) made.operand = {};
  return made;
}

int64_t forms_workspace(const ProducedForms& forms) {
  return forms.amax ? partial_bytes(forms.amax.dim(0)) : 0;
}

int forms_launches(const ProducedForms& forms) {
  return forms.amax ? 1 : 0;
}

}  // namespace viaduct::cuda
