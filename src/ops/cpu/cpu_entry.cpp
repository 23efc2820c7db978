#include "ops/cpu/cpu_entry.h"

namespace viaduct::cpu {

Choice choose_by_dtype(std::string_view op, DType dtype, const Traits& traits,
                       std::string_view kernel) {
  VIADUCT_CHECK(DeviceError, is_floating(dtype),
                "{}: {} has no kernel for {}; it has f32, bf16, f16 and f64", op, traits.name,
                dtype_name(dtype));
  Choice choice;
  const bool reference = dtype == DType::f64;
  choice.kernel = reference ? std::string_view("reference") : kernel;
  choice.variant = reference ? kReferenceKernel : kVectorKernel;
  return choice;
}

}  // namespace viaduct::cpu
