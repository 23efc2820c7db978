#pragma once
// Prefix sums of whole numbers by one block.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

template <class T, int kThreads>
struct ScanTotals {
  T of[2][kThreads];  // in turns
};

/// The sum of `value` over the threads before this one. All threads of the block call it, and have
/// met when it returns.
template <int kThreads, class T>
__device__ T sum_before(T value) {
  auto& totals = shared<ScanTotals<T, kThreads>>();
  const int thread = static_cast<int>(threadIdx.x);
  totals.of[0][thread] = value;
  __syncthreads();
  int turn = 0;
  for (int step = 1; step < kThreads; step *= 2, turn ^= 1) {
    const T sum = totals.of[turn][thread];
    totals.of[turn ^ 1][thread] = thread >= step ? sum + totals.of[turn][thread - step] : sum;
    __syncthreads();
  }
  return totals.of[turn][thread] - value;  // its own: the next call may write the others'
}

/// Calls store(i, Σ value(j) for j < i) for i in [0, n), and store(n, all).
template <int kThreads, class Value, class Store>
__device__ void scan_block(int64_t n, const Value& value, const Store& store) {
  const int64_t each = (n + kThreads - 1) / kThreads;
  const int64_t begin = min(n, int64_t{threadIdx.x} * each), end = min(n, begin + each);
  int64_t own = 0;
  for (int64_t i = begin; i < end; ++i) own += value(i);
  int64_t before = sum_before<kThreads>(own);
  for (int64_t i = begin; i < end; ++i) {
    store(i, before);
    before += value(i);
  }
  if (threadIdx.x == kThreads - 1) store(n, before);
}

}  // namespace viaduct::cuda
