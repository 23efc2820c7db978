#pragma once
// What the `choose` halves of vectorized families share: the kernel by dtype and instruction set.

#include "ops/cpu/cpu_ops.h"

namespace viaduct::cpu {

/// Choice::variant of families whose kernels are compiled once per instruction set.
enum Variant : int { kReferenceVariant, kAvx2Variant, kAvx512Variant };

/// The variant of `isa`; AMX machines run the AVX-512 kernels of families without matrix products.
inline constexpr Variant variant_of(CpuIsa isa) {
  return isa == CpuIsa::avx2 ? kAvx2Variant : kAvx512Variant;
}

/// Kernel "avx2" or "avx512" for f32, bf16 and f16, "reference" for f64; DeviceError otherwise.
Choice vector_choice(std::string_view op, CpuIsa isa, DType dtype);

/// Adds `flops` to the cost in the format that the kernel of `dtype` computes in.
void count_flops(Choice& choice, DType dtype, double flops);

/// Bytes of the elements seen, 0 for an undefined tensor.
inline int64_t bytes_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.bytes() : 0;
}

/// Rows of a tensor [R, H] or [T, N, H] with strided outer dims, for kernels.
struct RowView {
  char* data = nullptr;  // null: not there
  DType dtype = DType::f32;
  int64_t inner = 1;                           // rows in the second dim
  int64_t outer_stride = 0, inner_stride = 0;  // bytes

  char* row(int64_t r) const {
    return data + (r / inner) * outer_stride + (r % inner) * inner_stride;
  }
};

RowView row_view(const Tensor& tensor);

}  // namespace viaduct::cpu
