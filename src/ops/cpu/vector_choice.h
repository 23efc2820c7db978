#pragma once
// Common parts of the `choose` halves of vectorized families: the kernel by dtype and instruction
// set.

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"

namespace viaduct::cpu {

/// The variant of `isa`; AMX machines run the AVX-512 kernels of families without matrix products.
inline constexpr Variant variant_of(CpuIsa isa) {
  return isa == CpuIsa::portable ? kPortableKernel
         : isa == CpuIsa::avx2   ? kAvx2Kernel
                                 : kAvx512Kernel;
}

/// The instruction set of a variant; AVX-512 for both of its variants.
inline constexpr CpuIsa isa_of(const Choice& choice) {
  return choice.variant == kPortableKernel ? CpuIsa::portable
         : choice.variant == kAvx2Kernel   ? CpuIsa::avx2
                                           : CpuIsa::avx512;
}

/// What `isa` runs of a family that is compiled for these; AVX512-BF16 and AMX machines run its
/// AVX-512.
template <class T>
T of_isa(CpuIsa isa, T portable, T avx2, T avx512) {
  return isa == CpuIsa::portable ? portable : isa == CpuIsa::avx2 ? avx2 : avx512;
}
/// The same for families that are compiled for AVX512-BF16 too.
template <class T>
T of_isa(CpuIsa isa, T portable, T avx2, T avx512, T avx512_bf16) {
  const bool narrows = isa == CpuIsa::avx512_bf16 || isa == CpuIsa::amx;
  return narrows ? avx512_bf16 : of_isa(isa, portable, avx2, avx512);
}

/// Kernel "portable", "avx2" or "avx512" for f32, bf16 and f16, "reference" for f64; DeviceError
/// otherwise.
Choice vector_choice(std::string_view op, CpuIsa isa, DType dtype);

/// The same for families that are compiled for AVX512-BF16 too: "avx512_bf16" if the instruction
/// set has it and `narrows_bf16`, i.e. the op rounds to BF16. The bits are those of "avx512".
Choice narrowing_choice(std::string_view op, CpuIsa isa, DType dtype, bool narrows_bf16);

/// The kernels of a choice made by `vector_choice`.
template <class Kernels>
const Kernels& kernels_of(const Choice& choice, const Kernels& portable, const Kernels& avx2,
                          const Kernels& avx512) {
  return choice.variant == kPortableKernel ? portable
         : choice.variant == kAvx2Kernel   ? avx2
                                           : avx512;
}
/// And by `narrowing_choice`.
template <class Kernels>
const Kernels& kernels_of(const Choice& choice, const Kernels& portable, const Kernels& avx2,
                          const Kernels& avx512, const Kernels& avx512_bf16) {
  return choice.variant == kAvx512Bf16Kernel ? avx512_bf16
                                             : kernels_of(choice, portable, avx2, avx512);
}

/// Rows of a tensor [R, H] or [T, N, H] with strided outer dims, for kernels.
struct RowView {
  char* data = nullptr;  // null: absent
  DType dtype = DType::f32;
  int64_t inner = 1;                           // rows in the second dim
  int64_t outer_stride = 0, inner_stride = 0;  // bytes

  char* row(int64_t r) const {
    if (inner == 1) return data + r * outer_stride;  // no division
    return data + (r / inner) * outer_stride + (r % inner) * inner_stride;
  }
};

RowView row_view(const Tensor& tensor);

}  // namespace viaduct::cpu
