#pragma once
// Products of the matrix units of sm_90a by warpgroups (PTX: wgmma.mma_async): four warps together,
// the first of them a multiple of four, multiply operands in shared memory with FP32 sums.
//
//   1. Operands are written to shared memory by copies and stores of any thread. Matrix units read
//      it another way than threads do: after its writes, and before the barrier that ends them,
//      each thread calls `publish_writes`.
//   2. `begin_products` before the first product of sums that other code has touched.
//   3. `multiply`, any number; `commit_products` makes those since the last commit a group.
//   4. Sums are undefined, and operands are read, until `wait_for_products` or `finish_products`.
//
// Thread t has of 64 rows the two t / 32 · 16 + t % 32 / 4 and 8 further, and of each 8 columns the
// two t % 4 · 2 and 1 further: sums 4j, 4j + 1 are of the first row and columns from 8j, 4j + 2, 4j
// + 3 of the second one.

#include "ops/cuda/kernels/kernel.h"
#if !defined(__CUDACC__)
#include <cuda_host/tensor_core.h>
#endif

namespace viaduct::cuda {

/// Whether this is the code of a target with these products: kernels are empty for the others.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = false;
#else
inline constexpr bool kHasWarpgroups = true;
#endif

inline constexpr int kWarpgroupThreads = 128, kWarpgroupRows = 64;

/// Elements of operands of 8 bits.
struct E4m3 {
  uint8_t bits;
};
struct E5m2 {
  uint8_t bits;
};

/// An operand in shared memory, 32 bytes of the contracted dim deep. kLast: that dim is last in
/// memory, as it must be for 8 bits.
template <class T, bool kLast>
struct WarpgroupOperand {
  static_assert(kLast || sizeof(T) == 2);
  uint64_t descriptor;
};

/// Of an operand in tiles with the 128-byte swizzle (swizzled_tile.cuh) that begins at `start`;
/// `leading`, `stride`: bytes between parts of it.
__device__ inline uint64_t tile_descriptor(const void* start, int leading, int stride) {
#if defined(__CUDACC__)
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(start));
#else
  const uint32_t address = ::cuda_host::emulator().shared_address(start);
#endif
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | uint64_t{address >> 4} | uint64_t(leading >> 4) << 16 |
         uint64_t(stride >> 4) << 32;
}

/// Writes what a product will read.
template <class T>
__device__ void store_operand(void* to, T value) {
  *static_cast<T*>(to) = value;
#if !defined(__CUDACC__)
  ::cuda_host::emulator().note_write(to, sizeof value);
#endif
}

__device__ inline void publish_writes() {
#if defined(__CUDACC__)
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#else
  ::cuda_host::emulator().fence_writes();
#endif
}

__device__ inline void begin_products() {
#if defined(__CUDACC__)
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#else
  ::cuda_host::emulator().fence_products();
#endif
}

__device__ inline void commit_products() {
#if defined(__CUDACC__)
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#else
  ::cuda_host::emulator().commit_products();
#endif
}

/// Waits for all groups except the latest `kLatest`.
template <int kLatest>
__device__ void wait_for_products() {
#if defined(__CUDACC__)
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kLatest) : "memory");
#else
  ::cuda_host::emulator().wait_for_products(kLatest);
#endif
}

/// Waits for all groups; the sums can be used.
template <int kSums>
__device__ void finish_products(float (&sums)[kSums]) {
  wait_for_products<0>();
#if defined(__CUDACC__)
#pragma unroll
  for (int i = 0; i < kSums; ++i)
    asm volatile("" : "+f"(sums[i])::"memory");  // not before the wait
#else
  static_cast<void>(sums);
#endif
}

#if defined(__CUDACC__)
#define VIADUCT_SUMS_8(i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define VIADUCT_SUMS_64(i)                                                                  \
  VIADUCT_SUMS_8(i), VIADUCT_SUMS_8(i + 8), VIADUCT_SUMS_8(i + 16), VIADUCT_SUMS_8(i + 24), \
      VIADUCT_SUMS_8(i + 32), VIADUCT_SUMS_8(i + 40), VIADUCT_SUMS_8(i + 48),               \
      VIADUCT_SUMS_8(i + 56)
#define VIADUCT_NAMES_64                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, "         \
  "%8, %9, %10, %11, %12, %13, %14, %15, "   \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define VIADUCT_NAMES_128                            \
  VIADUCT_NAMES_64                                   \
  ", "                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, "         \
  "%72, %73, %74, %75, %76, %77, %78, %79, "         \
  "%80, %81, %82, %83, %84, %85, %86, %87, "         \
  "%88, %89, %90, %91, %92, %93, %94, %95, "         \
  "%96, %97, %98, %99, %100, %101, %102, %103, "     \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"

/// d [64, 256] of operands of 16 bits.
#define VIADUCT_MULTIPLY_16(format)                                                           \
  asm volatile(                                                                               \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                           \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." format "." format " {" VIADUCT_NAMES_128 \
      "}, %128, %129, p, 1, 1, %131, %132;\n}\n"                                              \
      : VIADUCT_SUMS_64(0), VIADUCT_SUMS_64(64)                                               \
      : "l"(a.descriptor), "l"(b.descriptor), "r"(add ? 1 : 0), "n"(kLastA ? 0 : 1),          \
        "n"(kLastB ? 0 : 1))
/// d [64, 128] of operands of 8 bits.
#define VIADUCT_MULTIPLY_8(format_a, format_b)                                                   \
  asm volatile(                                                                                  \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                               \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32." format_a "." format_b " {" VIADUCT_NAMES_64 \
      "}, %64, %65, p, 1, 1;\n}\n"                                                               \
      : VIADUCT_SUMS_64(0)                                                                       \
      : "l"(a.descriptor), "l"(b.descriptor), "r"(add ? 1 : 0))
#else
template <class T>
inline constexpr ::cuda_host::Element kEmulated =
    std::is_same_v<T, Bf16>   ? ::cuda_host::Element::bf16
    : std::is_same_v<T, F16>  ? ::cuda_host::Element::f16
    : std::is_same_v<T, E4m3> ? ::cuda_host::Element::e4m3
                              : ::cuda_host::Element::e5m2;
#endif

/// d = a · bᵀ, and d += with `add`. a has 64 rows; b 256 of 16 bits, 128 of 8.
template <class A, class B, bool kLastA, bool kLastB, int kSums>
__device__ void multiply(float (&d)[kSums], WarpgroupOperand<A, kLastA> a,
                         WarpgroupOperand<B, kLastB> b, bool add, int line = __builtin_LINE()) {
  static_assert(kSums == (sizeof(A) == 2 ? 128 : 64));
#if defined(__CUDACC__)
  static_cast<void>(line);
  if constexpr (std::is_same_v<A, Bf16>) {
    static_assert(std::is_same_v<B, Bf16>);
    VIADUCT_MULTIPLY_16("bf16");
  } else if constexpr (std::is_same_v<A, F16>) {
    static_assert(std::is_same_v<B, F16>);
    VIADUCT_MULTIPLY_16("f16");
  } else if constexpr (std::is_same_v<A, E4m3>) {
    static_assert(std::is_same_v<B, E4m3>);
    VIADUCT_MULTIPLY_8("e4m3", "e4m3");
  } else {
    static_assert(std::is_same_v<A, E5m2> && std::is_same_v<B, E4m3>);
    VIADUCT_MULTIPLY_8("e5m2", "e4m3");
  }
#else
  ::cuda_host::start_product(
      d,
      {{a.descriptor, kEmulated<A>, kLastA}, {b.descriptor, kEmulated<B>, kLastB}, 2 * kSums, add},
      line);
#endif
}

#if defined(__CUDACC__)
#undef VIADUCT_MULTIPLY_8
#undef VIADUCT_MULTIPLY_16
#undef VIADUCT_NAMES_128
#undef VIADUCT_NAMES_64
#undef VIADUCT_SUMS_64
#undef VIADUCT_SUMS_8
#endif

/// Calls f(row, column, i) for the sums i, i + 1 of the thread, which are of neighbouring columns.
template <int kSums, class F>
__device__ void for_pairs(F&& f) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const int row = thread / kWarpLanes * 16 + thread % kWarpLanes / 4, column = thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < kSums; i += 2) f(row + i / 2 % 2 * 8, column + i / 4 * 8, i);
}

}  // namespace viaduct::cuda
