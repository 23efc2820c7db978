#pragma once
// Common parts of the `choose` functions of a GPU's op families.

#include <algorithm>
#include <string_view>

#include "ops/costs.h"
#include "ops/cuda/cuda_ops.h"

namespace viaduct::cuda {

/// A choice of `kernel`, which exists for every dtype of the contract, with the contract's cost.
template <class Args>
Choice choose_kernel(std::string_view kernel, const Args& args) {
  Choice choice;
  choice.kernel = kernel;
  choice.cost = cost_of(args);
  return choice;
}

/// The same for an op without kernels for f64: DeviceError for it.
template <class Args>
Choice choose_kernel(std::string_view op, std::string_view kernel, DType dtype, const Args& args,
                     const Traits& traits) {
  VIADUCT_CHECK(DeviceError, dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16,
                "{}: {} has no kernel for {}; it has f32, bf16 and f16", op, traits.name,
                dtype_name(dtype));
  return choose_kernel(kernel, args);
}

/// The format in which matrix units compute 16-bit operands; f32 stays with the vector units, whose
/// sums are not rounded to TF32.
inline void use_matrix_units(Cost& cost, DType dtype) {
  if (dtype == DType::bf16) move_flops(cost, FlopFormat::bf16);
  if (dtype == DType::f16) move_flops(cost, FlopFormat::f16);
}

/// Number of parts of a sum over `rows`; depends only on the shape.
inline int64_t parts_of(int64_t rows) {
  constexpr int64_t kRowsPerPart = 64, kMostParts = 128;
  return std::clamp<int64_t>((rows + kRowsPerPart - 1) / kRowsPerPart, 1, kMostParts);
}

/// Stands for a launch until the kernel exists.
template <class Args>
void not_implemented(OpContext& context, const Choice& choice, const Args&, void*) {
  static_cast<void>(context);
  fail<DeviceError>("kernel {}: launches on cuda are not implemented yet", choice.kernel);
}

template <class Args>
void add_entry(OpEntry<Args>& entry, Choice (*choose)(const Args&, const Traits&)) {
  entry = {choose, not_implemented<Args>};
}

}  // namespace viaduct::cuda
