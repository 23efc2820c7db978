#pragma once
// The threads that share a row: a warp, or a whole block of 256. Their sums are made in one order,
// so they have the same bits in every run.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

/// Rows of up to this many elements belong to a warp.
inline constexpr int64_t kWarpRow = 1024;
inline constexpr int kRowThreads = 256;

struct SumOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN only if both are.
struct LargestOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b || a != a ? b : a;
  }
};

template <class T, class Join>
__device__ T join_warp(T value, Join join) {
#pragma unroll
  for (int bits = kWarpLanes / 2; bits > 0; bits /= 2)
    value = join(value, __shfl_xor_sync(kAllLanes, value, bits));
  return value;
}

template <class T, int kThreads>
struct WarpResults {
  T values[kThreads / kWarpLanes];
};

/// The joined values of all threads, for all threads; kThreads is the size of the block.
template <int kThreads, class T, class Join>
__device__ T join_block(T value, Join join) {
  auto& results = shared<WarpResults<T, kThreads>>();
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  value = join_warp(value, join);
  if (threadIdx.x % kWarpLanes == 0) results.values[warp] = value;
  __syncthreads();
  T all = results.values[0];
  for (int i = 1; i < kThreads / kWarpLanes; ++i) all = join(all, results.values[i]);
  __syncthreads();  // before the next call writes
  return all;
}

/// kThreads threads share a row: 32, with several rows in a block, or kRowThreads with one.
template <int kThreads>
struct RowGroup {
  static constexpr int kThreadsOfRow = kThreads;
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % kThreads; }
  /// Of the block's first row on.
  __device__ static int64_t row() {
    return int64_t{blockIdx.x} * (kRowThreads / kThreads) + threadIdx.x / kThreads;
  }
  template <class T, class Join>
  __device__ static T join(T value, Join how) {
    if constexpr (kThreads == kWarpLanes) {
      return join_warp(value, how);
    } else {
      return join_block<kThreads>(value, how);
    }
  }
};

/// Calls f(Count<elements of an access>, Count<threads of a row>) on the host.
template <class F>
void with_row_group(bool wide, int64_t width, F&& f) {
  if (width <= kWarpRow) {
    wide ? f(Count<8>{}, Count<kWarpLanes>{}) : f(Count<1>{}, Count<kWarpLanes>{});
  } else {
    wide ? f(Count<8>{}, Count<kRowThreads>{}) : f(Count<1>{}, Count<kRowThreads>{});
  }
}

}  // namespace viaduct::cuda
