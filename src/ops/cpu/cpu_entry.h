#pragma once
// Common parts of the `choose` functions of the cpu's op families.

#include <string_view>

#include "ops/costs.h"

namespace viaduct::cpu {

/// Choice::variant of all families.
enum Variant : int {
  kReferenceKernel,  // plain loops in FP64, for f64
  kVectorKernel,     // for f32, bf16 and f16, of the instruction set that the table is for
  // The same, where the choice depends on more than the table:
  kPortableKernel,
  kAvx2Kernel,
  kAvx512Kernel,
  kAvx512Bf16Kernel,
  kFamilyKernels,  // and from here on values of a family of its own
};

/// `kernel` for f32, bf16 and f16, "reference" for f64; DeviceError listing these for others.
Choice choose_by_dtype(std::string_view op, DType dtype, const Traits& traits,
                       std::string_view kernel);

/// Counts operations in the format that the cpu computes `dtype` in: FP32, or FP64 for f64.
inline void add_flops(Choice& choice, DType dtype, double flops) {
  add_vector_flops(choice.cost, dtype, flops);
}

}  // namespace viaduct::cpu
