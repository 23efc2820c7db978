// Optimizer state to and from FP32.

#include "ops/cuda/kernels/optimizer_state.h"

#include "ops/cuda/kernels/state_codes.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsPerBlock = kThreads * kStateRun;

/// Where this thread's elements begin, and how many there are: 0 to 8.
struct Own {
  int64_t at;
  int count;
};
__device__ Own own_elements(int64_t elements) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kStateRun;
  const int64_t left = elements - at;
  return {at, static_cast<int>(left < 0 ? 0 : left < kStateRun ? left : kStateRun)};
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) expand_state_kernel(StateRun run, float* out) {
  const Own own = own_elements(run.elements);
  const StatePlace place{run.values, run.scales, run.weights};
  float x[kStateRun];
  load_all<kWide>(run.format, place, own.at, own.count, x);
  for_state<kWide>(own.count, [&](int i, auto elements) {
    constexpr int n = decltype(elements)::value;
    float part[n];
#pragma unroll
    for (int j = 0; j < n; ++j) part[j] = x[i + j];
    store_run(out + own.at + i, part);
  });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) store_state_kernel(StateRun run, const float* in) {
  const Own own = own_elements(run.elements);
  float x[kStateRun] = {};
  if (in != nullptr) {
    for_state<kWide>(own.count, [&](int i, auto elements) {
      constexpr int n = decltype(elements)::value;
      float part[n];
      load_run(in + own.at + i, part);
#pragma unroll
      for (int j = 0; j < n; ++j) x[i + j] = part[j];
    });
  }
  store_all<kWide>(run.format, {run.values, run.scales, run.weights}, own.at, own.count, false, x);
}

bool is_wide_run(const StateRun& run, const float* floats) {
  return is_wide(run.values) && is_wide(run.weights) && is_wide(floats);
}

}  // namespace

void expand_state(const StateRun& run, float* out, Stream stream) {
  launch("expand_state",
         is_wide_run(run, out) ? expand_state_kernel<true> : expand_state_kernel<false>,
         Grid(blocks_for(run.elements, kElementsPerBlock)), kThreads, stream, run, out);
}

void store_state(const StateRun& run, const float* in, Stream stream) {
  launch("store_state", is_wide_run(run, in) ? store_state_kernel<true> : store_state_kernel<false>,
         Grid(blocks_for(run.elements, kElementsPerBlock)), kThreads, stream, run, in);
}

VIADUCT_KERNEL_FILE(optimizer_state)

}  // namespace viaduct::cuda
