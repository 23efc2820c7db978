#pragma once
// Products by matrix units (sm_80 and newer), and the loads of their operands from shared memory
// (PTX: mma.sync.m16n8k16, ldmatrix). All 32 lanes of a warp call them together.
//
// Lane 4g + t of a warp holds
//   of a product d [16, 8]  d[0], d[1]: row g, columns 2t, 2t + 1;  d[2], d[3]: row g + 8
//   of a [16, 16]           a[0]: row g, columns 2t, 2t + 1;  a[1]: row g + 8;  a[2], a[3]: the
//                           same rows, columns 2t + 8, 2t + 9
//   of b [16, 8]            b[0]: rows 2t, 2t + 1 of column g;  b[1]: rows 2t + 8, 2t + 9
// So two neighbouring products d, d' narrowed to 16 bits are an `a` as they are: pairs (d[0],
// d[1]), (d[2], d[3]), (d'[0], d'[1]), (d'[2], d'[3]).

#include "ops/cuda/kernels/kernel.h"
#if !defined(__CUDACC__)
#include <cuda_host/tensor_core.h>
#endif

namespace viaduct::cuda {

/// d += a · b with FP32 sums; T: Bf16 or F16.
template <class T>
__device__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                            int line = __builtin_LINE()) {
  static_assert(std::is_same_v<T, Bf16> || std::is_same_v<T, F16>);
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  ::cuda_host::product(std::is_same_v<T, Bf16>, d, a, b, line);
#endif
}

/// Four matrices of 8 × 8 elements of 16 bits: lane l names row l % 8 of matrix l / 8, 16 bytes of
/// shared memory at an address that 16 divides. Of each matrix, lane 4g + t gets elements 2t, 2t +
/// 1 of row g; kTransposed: of column g.
template <bool kTransposed>
__device__ void load_matrices(uint32_t (&to)[4], const void* row, int line = __builtin_LINE()) {
#if defined(__CUDACC__)
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
#else
  ::cuda_host::load_matrices<4, kTransposed>(to, row, line);
#endif
}

/// Two numbers narrowed, as a register of an operand has them.
template <class T>
__device__ uint32_t narrowed_pair(float first, float second) {
  return uint32_t{narrowed<T>(first).bits} | uint32_t{narrowed<T>(second).bits} << 16;
}

}  // namespace viaduct::cuda
