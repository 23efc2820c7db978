#pragma once
// Codes of 8 and 4 bits as numbers of FP16, which represents all of them, and E2M1 times a scale of
// E4M3, exactly.

#include "ops/cuda/kernels/float8.cuh"

namespace viaduct::cuda {

/// Four codes of E4M3 as two pairs of FP16.
__device__ inline void widen_e4m3(uint32_t codes, uint32_t (&to)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;\n}\n"
      : "=r"(to[0]), "=r"(to[1])
      : "r"(codes));
#else
  for (int pair = 0; pair < 2; ++pair) {
    uint32_t both = 0;
    for (int half = 0; half < 2; ++half) {
      const auto code = static_cast<uint8_t>(codes >> (16 * pair + 8 * half));
      both |= uint32_t{narrowed<F16>(decode_e4m3(code)).bits} << 16 * half;
    }
    to[pair] = both;
  }
#endif
}

/// The same of E5M2, whose bits are the upper ones of FP16.
__device__ inline void widen_e5m2(uint32_t codes, uint32_t (&to)[2]) {
  to[0] = (codes & 0xffu) << 8 | (codes & 0xff00u) << 16;
  to[1] = (codes >> 16 & 0xffu) << 8 | (codes & 0xff000000u);
}

/// The number of an E2M1 code, whose upper bits are not read.
__device__ inline float decode_e2m1(uint32_t code) {
  const uint32_t magnitude = code & 7u;
  const uint32_t bits = magnitude < 2 ? (magnitude == 0 ? 0u : 0x3f000000u)  // 0.5
                                      : (magnitude << 22) + (126u << 23);
  return __uint_as_float(bits | (code & 8u) << 28);
}

}  // namespace viaduct::cuda
