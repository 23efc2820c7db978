#pragma once
// Included by every kernel file; contains everything that differs between its two compilers: nvcc
// for a GPU, and the C++ compiler for the emulator of tests/cuda_host, which runs the same file on
// the host.
// Apart from that, kernels use what both have in common: indices, barriers, shuffles, plain C++
// without
// contraction of products and sums (nvcc gets a flag for this), so that elementwise results have
// the bits of the cpu's.

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include <cuda_host/device.h>
#endif

#include <cstdint>
#include <type_traits>

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

inline constexpr unsigned kAllLanes = ~0u;
inline constexpr int kWarpLanes = 32;

/// Static shared memory, one for each type in a kernel; uninitialised.
template <class T>
__device__ T& shared() {
#if defined(__CUDACC__)
  __shared__ alignas(16) unsigned char memory[sizeof(T)];
  return *reinterpret_cast<T*>(memory);
#else
  static const char kName = 0;
  return *static_cast<T*>(::cuda_host::emulator().shared(&kName, sizeof(T)));
#endif
}

/// The shared memory whose size the launch sets, aligned to 1024 bytes; uninitialised.
template <class T>
__device__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(1024) unsigned char viaduct_dynamic_memory[];
  return reinterpret_cast<T*>(viaduct_dynamic_memory);
#else
  return static_cast<T*>(::cuda_host::emulator().dynamic_shared());
#endif
}

/// Threads of a block, and its dynamic shared memory.
struct Block {
  unsigned threads;
  size_t shared_bytes;
#if defined(__CUDACC__)
  Block(int64_t threads, size_t shared_bytes = 0)
      : threads(static_cast<unsigned>(threads)), shared_bytes(shared_bytes) {}
#else
  const char* file;  // of the launch, whose kernels are loaded together
  Block(int64_t threads, size_t shared_bytes = 0, const char* file = __builtin_FILE())
      : threads(static_cast<unsigned>(threads)), shared_bytes(shared_bytes), file(file) {}
#endif
};

struct Grid {
  unsigned x = 1, y = 1;
  Grid(int64_t x, int64_t y = 1) : x(static_cast<unsigned>(x)), y(static_cast<unsigned>(y)) {}
};

/// Starts `kernel` on the stream with a copy of its arguments. Nothing for an empty grid.
template <class... Parameters, class... Args>
void launch(const char* name, void (*kernel)(Parameters...), Grid grid, Block block, Stream stream,
            const Args&... args) {
  if (grid.x == 0 || grid.y == 0) return;
#if defined(__CUDACC__)
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y);
  config.blockDim = dim3(block.threads);
  config.dynamicSmemBytes = block.shared_bytes;
  config.stream = stream;
  constexpr size_t kWithoutAsking = 48 * 1024;
  cudaError_t error = cudaSuccess;
  if (block.shared_bytes > kWithoutAsking)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(block.shared_bytes));
  if (error == cudaSuccess) error = cudaLaunchKernelEx(&config, kernel, Parameters(args)...);
  if (error != cudaSuccess) launch_failed(name, cudaGetErrorString(error));
#else
  try {
    const auto run = [=] {
      ::cuda_host::emulator().launch({grid.x, grid.y}, block.threads, block.shared_bytes,
                                     [&] { kernel(Parameters(args)...); });
    };
    ::cuda_host::enqueue(stream, name, run, block.file);
  } catch (const ::cuda_host::Error& error) {
    launch_failed(name, error.what());
  }
#endif
}

/// Ends a kernel file: `kernels_of_NAME()` stands for its kernels where they are loaded
/// (launch/load_kernels.h).
#if defined(__CUDACC__)
#define VIADUCT_KERNEL_FILE(name)                       \
  namespace {                                           \
  __global__ void name##_file() {}                      \
  }                                                     \
  const void* kernels_of_##name();                      \
  const void* kernels_of_##name() {                     \
    return reinterpret_cast<const void*>(&name##_file); \
  }
#else
#define VIADUCT_KERNEL_FILE(name)   \
  const void* kernels_of_##name();  \
  const void* kernels_of_##name() { \
    return __builtin_FILE();        \
  }
#endif

/// Blocks of `each` that cover `count`.
inline int64_t blocks_for(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

__device__ inline float widened(float value) {
  return value;
}
__device__ inline float widened(Bf16 value) {
  return __uint_as_float(uint32_t{value.bits} << 16);
}
__device__ inline float widened(F16 value) {
#if defined(__CUDACC__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return static_cast<float>(std::bit_cast<_Float16>(value.bits));
#endif
}

template <class T>
__device__ T narrowed(float value);
template <>
__device__ inline float narrowed<float>(float value) {
  return value;
}
/// To nearest even; NaN stays NaN.
template <>
__device__ inline Bf16 narrowed<Bf16>(float value) {
  const uint32_t u = __float_as_uint(value);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>(nan ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}
template <>
__device__ inline F16 narrowed<F16>(float value) {
#if defined(__CUDACC__)
  return {__half_as_ushort(__float2half_rn(value))};
#else
  return {std::bit_cast<uint16_t>(static_cast<_Float16>(value))};
#endif
}

/// N elements that are read or written by accesses of up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Run {
  T values[N];
};

template <int N, class T>
__device__ void load_run(const T* from, float (&to)[N]) {
  const Run<T, N> run = *reinterpret_cast<const Run<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = widened(run.values[i]);
}
template <int N, class T>
__device__ void store_run(T* to, const float (&from)[N]) {
  Run<T, N> run;
#pragma unroll
  for (int i = 0; i < N; ++i) run.values[i] = narrowed<T>(from[i]);
  *reinterpret_cast<Run<T, N>*>(to) = run;
}

/// Elements [at, at + N) of a dense row, N = 1, or N = 2 or 8 with `is_wide` memory. The format is
/// the same for all threads of a launch, so that it costs a branch and no divergence.
template <int N>
__device__ void load(const void* row, Format format, int64_t at, float (&to)[N]) {
  if (format == Format::f32) {
    load_run(static_cast<const float*>(row) + at, to);
  } else if (format == Format::bf16) {
    load_run(static_cast<const Bf16*>(row) + at, to);
  } else {
    load_run(static_cast<const F16*>(row) + at, to);
  }
}
template <int N>
__device__ void store(void* row, Format format, int64_t at, const float (&from)[N]) {
  if (format == Format::f32) {
    store_run(static_cast<float*>(row) + at, from);
  } else if (format == Format::bf16) {
    store_run(static_cast<Bf16*>(row) + at, from);
  } else {
    store_run(static_cast<F16*>(row) + at, from);
  }
}
template <int N>
__device__ void load(const Vector& vector, int64_t at, float (&to)[N]) {
  load(vector.data, vector.format, at, to);
}

__device__ inline int64_t offset_of(const Rows& rows, int64_t row) {
  return row / (rows.middle * rows.inner) * rows.strides[0] +
         row / rows.inner % rows.middle * rows.strides[1] + row % rows.inner * rows.strides[2];
}
__device__ inline void* address_of(const Rows& rows, int64_t row) {
  const int64_t bytes = rows.format == Format::f64 ? 8 : rows.format == Format::f32 ? 4 : 2;
  return static_cast<char*>(rows.data) + offset_of(rows, row) * bytes;
}

template <int N>
using Count = std::integral_constant<int, N>;

/// Calls f(i, Count<n>) for the elements [i, i + n) of a row that are this thread's, of `threads`
/// that share the row: n = N, and 1 at the end of a row that N does not divide.
template <int N, class F>
__device__ void for_row(int thread, int threads, int64_t width, F&& f) {
  for (int64_t i = int64_t{thread} * N; i < width; i += int64_t{threads} * N) {
    if (N == 1 || i + N <= width) {
      f(i, Count<N>{});
    } else {
      for (int64_t j = i; j < width; ++j) f(j, Count<1>{});
    }
  }
}

/// Calls f(row, i, Count<n>) for this thread's share of all rows of a launch whose blocks have
/// `threads` threads.
template <int N, class F>
__device__ void for_elements(int64_t rows, int64_t width, int threads, F&& f) {
  const int64_t runs = (width + N - 1) / N, all = rows * runs;
  const int64_t step = int64_t{gridDim.x} * threads;
  for (int64_t r = int64_t{blockIdx.x} * threads + threadIdx.x; r < all; r += step) {
    const int64_t row = r / runs, i = r % runs * N;
    if (N == 1 || i + N <= width) {
      f(row, i, Count<N>{});
    } else {
      for (int64_t j = i; j < width; ++j) f(row, j, Count<1>{});
    }
  }
}

/// Blocks for `for_elements`: enough for every run to have a thread, up to a bound from which on
/// the threads take several.
inline Grid grid_for_elements(int64_t rows, int64_t width, int64_t run, int64_t threads) {
  const int64_t blocks = blocks_for(rows * blocks_for(width, run), threads);
  return Grid(blocks < 65536 ? blocks : 65536);
}

}  // namespace viaduct::cuda
