#pragma once
// Words of elements as they lie in memory: a number of FP32, or two of 16 bits that one instruction
// computes with.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

template <class T>
inline constexpr int kInWord = 4 / sizeof(T);

/// The bits of the magnitudes in a word.
template <class T>
inline constexpr uint32_t kMagnitudes = kInWord<T> == 2 ? 0x7fff7fffu : 0x7fffffffu;

/// Of each number the larger magnitude, NaN if either is; signs are undefined.
template <class T>
__device__ uint32_t largest_in_words(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  uint32_t most;
  if constexpr (std::is_same_v<T, float>) {
    asm("max.NaN.f32 %0, %1, %2;" : "=r"(most) : "r"(a & kMagnitudes<T>), "r"(b & kMagnitudes<T>));
#if __CUDA_ARCH__ >= 860
  } else if constexpr (std::is_same_v<T, Bf16>) {
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
#else
  } else if constexpr (std::is_same_v<T, Bf16>) {
    asm("max.NaN.bf16x2 %0, %1, %2;"
        : "=r"(most)
        : "r"(a & kMagnitudes<T>), "r"(b & kMagnitudes<T>));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;"
        : "=r"(most)
        : "r"(a & kMagnitudes<T>), "r"(b & kMagnitudes<T>));
#endif
  }
  return most;
#else
  // Bits of magnitudes are ordered as numbers, NaN above all.
  const auto larger = [](uint32_t x, uint32_t y) { return x < y ? y : x; };
  a &= kMagnitudes<T>, b &= kMagnitudes<T>;
  if constexpr (kInWord<T> == 1) return larger(a, b);
  return larger(a & 0xffff0000u, b & 0xffff0000u) | larger(a & 0xffffu, b & 0xffffu);
#endif
}

/// Has the compiler make a number before what follows: what a condition stores, which it would
/// otherwise make behind a branch, or the bytes of a row, of which it would take 64 bits.
__device__ inline void make_now([[maybe_unused]] uint32_t& value) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(value));
#endif
}

/// The same of an address of global memory, which others are offsets from.
template <class T>
__device__ T* made_now(T* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(address));
  __builtin_assume(__isGlobal(address));
#endif
  return address;
}

/// The first and the second half of two words.
__device__ inline uint32_t lower_halves(uint32_t a, uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ inline uint32_t upper_halves(uint32_t a, uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

template <class T>
__device__ void widen_word(uint32_t word, float (&to)[kInWord<T>]) {
  if constexpr (std::is_same_v<T, float>) {
    to[0] = __uint_as_float(word);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    to[0] = __uint_as_float(word << 16), to[1] = __uint_as_float(word & 0xffff0000u);
  } else {
    to[0] = widened(F16{static_cast<uint16_t>(word)});
    to[1] = widened(F16{static_cast<uint16_t>(word >> 16)});
  }
}

/// Products of two pairs of BF16, to nearest even.
__device__ inline uint32_t times_bf16(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
#else
  float x[2], y[2];
  widen_word<Bf16>(a, x), widen_word<Bf16>(b, y);
  return uint32_t{narrowed<Bf16>(x[1] * y[1]).bits} << 16 | narrowed<Bf16>(x[0] * y[0]).bits;
#endif
}

}  // namespace viaduct::cuda
