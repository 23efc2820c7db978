#pragma once
// The parts of CUDA that kernels use, for g++: keywords, indices, barriers, collectives of warps,
// integer atomics and a few functions. Kernel files include it through `ops/cuda/kernels/kernel.h`.
// There are no atomics on floating-point numbers: their order would be visible in the sums.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_host/emulator.h"
#include "cuda_host/streams.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::cuda_host::emulator().thread_index())
#define blockIdx (::cuda_host::emulator().block_index())
#define blockDim (::cuda_host::emulator().block_extent())
#define gridDim (::cuda_host::emulator().grid_extent())

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace cuda_host {

enum Operation {
  kShuffle = 1,
  kBallot,
  kProduct,
  kLoad,
  kLoadTransposed,
  kWarpgroupProduct,
  kWarpBarrier
};

/// Names a collective and the line that calls it.
inline int named(Operation operation, int line) {
  return operation | line << 4;
}

template <class T>
struct Sent {
  T value;
  int from;  // the lane whose value this lane wants
};

template <class T>
T shuffle(unsigned mask, T value, int from, int line) {
  static_assert(sizeof(T) <= 8);
  const Sent<T> sent{value, from};
  T received;
  emulator().collective(
      mask, named(kShuffle, line), &sent, sizeof sent, &received, sizeof received, [](Warp& warp) {
        for (int lane = 0; lane < kWarp; ++lane) {
          if ((warp.mask >> lane & 1) == 0) continue;
          Sent<T> wanted, source;
          std::memcpy(&wanted, warp.in[lane], sizeof wanted);
          std::memset(warp.out[lane], 0xff, sizeof(T));  // undefined for an absent lane
          if ((warp.mask >> wanted.from & 1) == 0) continue;
          std::memcpy(&source, warp.in[wanted.from], sizeof source);
          std::memcpy(warp.out[lane], &source.value, sizeof(T));
        }
      });
  return received;
}

/// `to` if it is in the same part of `width` lanes as `lane`, else `lane`.
inline int in_part(int lane, int to, int width) {
  return to >= 0 && to / width == lane / width ? to : lane;
}

}  // namespace cuda_host

inline void __syncthreads() {
  ::cuda_host::emulator().block_barrier(false);
}
inline int __syncthreads_or(int value) {
  return ::cuda_host::emulator().block_barrier(value != 0);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, int line = __builtin_LINE()) {
  const int lane = ::cuda_host::emulator().lane();
  return ::cuda_host::shuffle(mask, value, lane / width * width + from % width, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, int line = __builtin_LINE()) {
  const int lane = ::cuda_host::emulator().lane();
  return ::cuda_host::shuffle(mask, value, ::cuda_host::in_part(lane, lane ^ bits, width), line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int delta, int width = 32, int line = __builtin_LINE()) {
  const int lane = ::cuda_host::emulator().lane();
  return ::cuda_host::shuffle(mask, value, ::cuda_host::in_part(lane, lane - delta, width), line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int delta, int width = 32, int line = __builtin_LINE()) {
  const int lane = ::cuda_host::emulator().lane();
  return ::cuda_host::shuffle(mask, value, ::cuda_host::in_part(lane, lane + delta, width), line);
}
inline unsigned __ballot_sync(unsigned mask, int value, int line = __builtin_LINE()) {
  const uint32_t yes = value != 0 ? 1 : 0;
  uint32_t votes;
  ::cuda_host::emulator().collective(mask, ::cuda_host::named(::cuda_host::kBallot, line), &yes,
                                     sizeof yes, &votes, sizeof votes, [](::cuda_host::Warp& warp) {
                                       uint32_t all = 0;
                                       for (int lane = 0; lane < ::cuda_host::kWarp; ++lane) {
                                         if ((warp.mask >> lane & 1) == 0) continue;
                                         all |= static_cast<uint32_t>(warp.in[lane][0] & 1) << lane;
                                       }
                                       for (auto& out : warp.out)
                                         std::memcpy(out, &all, sizeof all);
                                     });
  return votes;
}
inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
  ::cuda_host::emulator().warp_barrier(mask, ::cuda_host::named(::cuda_host::kWarpBarrier, line));
}

// A launch runs on one thread of the system. Instrumentation does not see the accesses of atomics
// as those of the thread's code (race_watch.h).
#define VIADUCT_ATOMIC __attribute__((no_sanitize("thread")))
template <class T>
VIADUCT_ATOMIC T atomicAdd(T* at, T value) {
  static_assert(std::is_integral_v<T>, "sums of floating-point numbers have one order");
  ::cuda_host::emulator().note_atomic(at, sizeof(T));
  const T before = *at;
  *at = before + value;
  return before;
}
template <class T>
VIADUCT_ATOMIC T atomicMax(T* at, T value) {
  static_assert(std::is_integral_v<T>);
  ::cuda_host::emulator().note_atomic(at, sizeof(T));
  const T before = *at;
  *at = std::max(before, value);
  return before;
}

/// Byte i of the result is that byte of {low, high} which digit i of `which` names.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const uint64_t both = uint64_t{high} << 32 | low;
  unsigned bytes = 0;
  for (int i = 0; i < 4; ++i)
    bytes |= static_cast<unsigned>(both >> 8 * (which >> 4 * i & 7u) & 0xffu) << 8 * i;
  return bytes;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
using std::max;
using std::min;
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline double __longlong_as_double(long long bits) {
  return std::bit_cast<double>(bits);
}
inline long long __double_as_longlong(double value) {
  return std::bit_cast<long long>(value);
}
