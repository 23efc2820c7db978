// Sinkhorn's iteration over a router's logits, in one block: it ends when the factors no longer
// change, which only the device knows, and a round is short beside a launch. A warp has a token.

#include "ops/cuda/kernels/routing.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = kSinkhornWarps * kWarpLanes;

__device__ int warp_of_thread() {
  return static_cast<int>(threadIdx.x) / kWarpLanes;
}

__device__ void make_exponentials(const Sinkhorn& args) {
  for (int64_t t = warp_of_thread(); t < args.tokens; t += kSinkhornWarps) {
    const float* const x = args.logits + t * args.experts;
    const float most = largest_of(x, args.experts);
    for (int64_t e = lane_of_thread(); e < args.experts; e += kWarpLanes)
      args.exponentials[t * args.experts + e] = expf(x[e] - most);
  }
}

/// Each warp's share of the experts' sums, in its row of `sums`.
__device__ void add_tokens(const Sinkhorn& args) {
  double* const sums = args.sums + warp_of_thread() * args.experts;
  for (int64_t e = lane_of_thread(); e < args.experts; e += kWarpLanes) sums[e] = 0;
  for (int64_t t = warp_of_thread(); t < args.tokens; t += kSinkhornWarps) {
    const float* const p = args.exponentials + t * args.experts;
    const double sum = args.epsilon + sum_over<double>(args.experts, [&](int64_t e) {
                         return args.factors[e] * static_cast<double>(p[e]);
                       });
    const double own = 1 / (static_cast<double>(args.tokens) * sum);
    for (int64_t e = lane_of_thread(); e < args.experts; e += kWarpLanes)
      sums[e] += own * static_cast<double>(p[e]);
  }
}

/// New factors from the sums of all warps; returns the mean change, to all threads.
__device__ double next_factors(const Sinkhorn& args) {
  const auto experts = static_cast<double>(args.experts);
  double change = 0;
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads) {
    double sum = args.epsilon;
    for (int warp = 0; warp < kSinkhornWarps; ++warp) sum += args.sums[warp * args.experts + e];
    const double next = 1 / (experts * sum);
    change += fabs(next - args.factors[e]) / experts;
    args.factors[e] = next;
  }
  return join_block<kThreads>(change, SumOf{});
}

__global__ void __launch_bounds__(kThreads) sinkhorn_kernel(Sinkhorn args) {
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads) args.factors[e] = 1;
  make_exponentials(args);
  double change = args.tokens > 0 ? 1 : 0;
  for (int round = 0; round < args.rounds && change > args.tolerance; ++round) {
    __syncthreads();  // the factors are there
    add_tokens(args);
    __syncthreads();  // the sums of all warps are there
    change = next_factors(args);
  }
  for (int64_t e = threadIdx.x; e < args.experts; e += kThreads)
    args.bias[e] = static_cast<float>(log(args.factors[e]));
}

}  // namespace

void sinkhorn(const Sinkhorn& args, Stream stream) {
  launch("sinkhorn", sinkhorn_kernel, Grid(1), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(sinkhorn)

}  // namespace viaduct::cuda
