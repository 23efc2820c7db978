#pragma once
// Loops over rows of floats, for kernels on simd.h. Everything has internal linkage (see there).

#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Calls body(i) for every whole vector of a row of n elements, then body(i, mask) for the rest.
template <class Body>
inline void for_row(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i);
  if (i < n) body(i, first(n - i));
}

/// Calls f with `data` as a pointer to the C++ type of `dtype`: f32, bf16 or f16.
template <class F>
inline void with_floats(DType dtype, const void* data, F&& f) {
  if (dtype == DType::bf16) {
    f(static_cast<const bfloat16*>(data));
  } else if (dtype == DType::f16) {
    f(static_cast<const float16*>(data));
  } else {
    f(static_cast<const float*>(data));
  }
}
template <class F>
inline void with_floats(DType dtype, void* data, F&& f) {
  if (dtype == DType::bf16) {
    f(static_cast<bfloat16*>(data));
  } else if (dtype == DType::f16) {
    f(static_cast<float16*>(data));
  } else {
    f(static_cast<float*>(data));
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
