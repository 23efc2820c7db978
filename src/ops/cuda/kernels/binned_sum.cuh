#pragma once
// States of reproducible sums on the device: bins of 40 bits, the sums of three neighbouring ones,
// each as high · 2^40 + low with −2^39 ≤ low < 2^39 (ops/optimizer.h says what a state promises).

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {

inline constexpr int kBinBits = 40, kBins = 3, kAllBins = 53;
/// Exponent of the lowest bit of bin 0.
inline constexpr int kLowestExponent = -1070;
inline constexpr int kStateSize = 8;

/// Sums of the bins top, top − 1 and top − 2, each high · 2^40 + low.
struct BinnedSum {
  int top = -1;  // −1: empty
  int64_t high[kBins] = {}, low[kBins] = {};
  bool finite = true;
};

/// Moves the bins so that the first is `top`, which is not below the one that it was; what is under
/// the lowest bin is dropped.
__device__ inline void raise(int from, int top, int64_t (&bins)[kBins]) {
  const int steps = top - from < kBins ? top - from : kBins;
  for (int i = 0; i < steps; ++i) bins[2] = bins[1], bins[1] = bins[0], bins[0] = 0;
}

/// Brings `low` into its range.
__device__ inline void carry(int64_t& high, int64_t& low) {
  const int64_t over = (low + (int64_t{1} << (kBinBits - 1))) >> kBinBits;
  high += over;
  low -= over << kBinBits;
}

__device__ inline BinnedSum read_state(const double* state) {
  BinnedSum sum;
  sum.top = static_cast<int>(state[0]) - 1;
#pragma unroll
  for (int i = 0; i < kBins; ++i) {
    sum.high[i] = static_cast<int64_t>(state[1 + 2 * i]);
    sum.low[i] = static_cast<int64_t>(state[2 + 2 * i]);
  }
  sum.finite = state[7] == 0;
  return sum;
}

__device__ inline void write_state(BinnedSum sum, double* state) {
  state[0] = sum.finite ? sum.top + 1 : 0;
#pragma unroll
  for (int i = 0; i < kBins; ++i) {
    carry(sum.high[i], sum.low[i]);
    state[1 + 2 * i] = sum.finite ? static_cast<double>(sum.high[i]) : 0;
    state[2 + 2 * i] = sum.finite ? static_cast<double>(sum.low[i]) : 0;
  }
  state[7] = sum.finite ? 0 : 1;
}

/// sum += other, before carries.
__device__ inline void add_state(BinnedSum& sum, BinnedSum other) {
  const int top = sum.top > other.top ? sum.top : other.top;
  raise(sum.top, top, sum.high), raise(sum.top, top, sum.low);
  raise(other.top, top, other.high), raise(other.top, top, other.low);
#pragma unroll
  for (int i = 0; i < kBins; ++i) sum.high[i] += other.high[i], sum.low[i] += other.low[i];
  sum.top = top;
  sum.finite = sum.finite && other.finite;
}

template <int kThreads>
struct ThreadSums {
  BinnedSum of[kThreads];
};

/// The sum of all threads' sums, for the first warp; called once in a kernel. Its lanes merge those
/// of the others first: few barriers and shuffles.
template <int kThreads>
__device__ BinnedSum join_sums(BinnedSum sum) {
  auto& sums = shared<ThreadSums<kThreads>>();
  sums.of[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kWarpLanes) return sum;  // whole warps
  for (auto i = threadIdx.x + kWarpLanes; i < kThreads; i += kWarpLanes) add_state(sum, sums.of[i]);
  const int top = join_warp(sum.top, LargestOf{});
  raise(sum.top, top, sum.high), raise(sum.top, top, sum.low);
  sum.top = top;
#pragma unroll
  for (int i = 0; i < kBins; ++i) {
    sum.high[i] = join_warp(sum.high[i], SumOf{});
    sum.low[i] = join_warp(sum.low[i], SumOf{});
  }
  sum.finite = __ballot_sync(kAllLanes, !sum.finite) == 0;
  return sum;
}

/// The value, rounded in FP64 when the bins are added; NaN if a value was not finite.
__device__ inline double value_of(const BinnedSum& sum) {
  if (!sum.finite) return __longlong_as_double(0x7ff8000000000000);
  if (sum.top < 0) return 0;
  // Carried so that lower bins are at most half a unit of the next one: then only the last
  // additions round.
  int64_t high[kBins], low[kBins];
  int64_t over = 0;
  for (int i = kBins - 1; i >= 0; --i) {
    high[i] = sum.high[i], low[i] = sum.low[i] + over;
    carry(high[i], low[i]);
    over = i > 0 ? high[i] : 0;
  }
  double value = 0;
  for (int i = kBins - 1; i >= 0; --i) {
    const double units =
        (i > 0 ? 0 : static_cast<double>(high[0]) * 0x1p40) + static_cast<double>(low[i]);
    value += ldexp(units, kLowestExponent + (sum.top - i) * kBinBits);
  }
  return value;
}

}  // namespace viaduct::cuda
