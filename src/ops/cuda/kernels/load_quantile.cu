// Counts of a load bias's margins, a warp a token, and the bias at their quantile
// (ops/load_quantile.h), with the cpu's bits.

#include "ops/cuda/kernels/routing.cuh"

namespace viaduct::cuda {
namespace {

/// Where the bins of a histogram are, for all lanes of a warp.
struct Bins {
  double begin, width, per_value;

  __device__ Bins(const float* bias, int64_t experts, int64_t bins) {
    float most = bias[0], least = -bias[0];
    for (int64_t e = lane_of_thread(); e < experts; e += kWarpLanes) {
      most = LargestOf{}(most, bias[e]);
      least = LargestOf{}(least, -bias[e]);
    }
    const auto low = static_cast<double>(-join_warp(least, LargestOf{}));
    const double span = static_cast<double>(join_warp(most, LargestOf{})) - low + 2;
    const auto count = static_cast<double>(bins);
    begin = low - 1;
    width = span / count;
    per_value = count / span;
  }
};

__global__ void __launch_bounds__(kRouterThreads) clear_margins_kernel(MarginCounts args) {
  for_elements<1>(1, args.experts * args.bins, kRouterThreads,
                  [&](int64_t, int64_t i, auto) { args.histogram[i] = 0; });
}

__global__ void __launch_bounds__(kRouterThreads) count_margins_kernel(MarginCounts args) {
  const int64_t token = token_of_warp();
  if (token >= args.tokens || is_padding(args.token_index, token)) return;  // the whole warp
  const float* const logits = args.logits + token * args.experts;
  const int experts = static_cast<int>(args.experts);
  const auto value = [&](int e) { return sigmoid_of(logits[e]) + args.bias[e]; };
  Candidate last{0, -1};
  for (int64_t j = 0; j <= args.topk; ++j) {
    last = next_best(experts, last, lane_of_thread(), kWarpLanes, value, [](int) { return true; });
    if (last.value != last.value) return;  // a NaN is the best of all, for the whole warp
  }
  const Bins range(args.bias, args.experts, args.bins);
  for (int64_t e = lane_of_thread(); e < args.experts; e += kWarpLanes) {
    const double margin =
        static_cast<double>(last.value) - static_cast<double>(sigmoid_of(logits[e]));
    double bin = floor((margin - range.begin) * range.per_value);
    const auto end = static_cast<double>(args.bins - 1);
    bin = bin < 0 ? 0 : bin > end ? end : bin;
    atomicAdd(reinterpret_cast<unsigned long long*>(args.histogram + e * args.bins +
                                                    static_cast<int64_t>(bin)),
              1ull);
  }
}

/// A warp has an expert, a lane a part of its bins.
__global__ void __launch_bounds__(kRouterThreads) quantile_kernel(QuantileBias args) {
  const int64_t expert = token_of_warp();
  if (expert >= args.experts) return;  // the whole warp
  const int64_t* const row = args.histogram + expert * args.bins;
  const int lane = lane_of_thread();
  const int64_t each = (args.bins + kWarpLanes - 1) / kWarpLanes;
  const int64_t first = min(args.bins, lane * each), end = min(args.bins, first + each);
  int64_t own = 0;
  for (int64_t i = first; i < end; ++i) own += row[i];
  int64_t until = own;  // of this lane and those before
  for (int step = 1; step < kWarpLanes; step *= 2) {
    const int64_t other = __shfl_up_sync(kAllLanes, until, step);
    if (lane >= step) until += other;
  }
  const int64_t all = __shfl_sync(kAllLanes, until, kWarpLanes - 1);
  const Bins range(args.bias, args.experts, args.bins);
  if (all == 0) {
    if (lane == 0) args.quantile[expert] = static_cast<double>(args.bias[expert]);
    return;
  }
  const double share = static_cast<double>(args.topk) / static_cast<double>(args.experts);
  const double wanted = static_cast<double>(all) * share;
  double before = static_cast<double>(until - own);
  if (before >= wanted || static_cast<double>(until) < wanted) return;  // one lane has the place
  for (int64_t i = first; i < end; ++i) {
    const auto here = static_cast<double>(row[i]);
    if (before + here >= wanted) {
      const double place = static_cast<double>(i) + (wanted - before) / here;
      args.quantile[expert] = range.begin + range.width * place;
      return;
    }
    before += here;
  }
}

/// The mean in one order: a few thousand numbers at most.
__global__ void __launch_bounds__(kRouterThreads) center_bias_kernel(QuantileBias args) {
  double mean = 0;
  for (int64_t e = 0; e < args.experts; ++e)
    mean += args.quantile[e] / static_cast<double>(args.experts);
  for (int64_t e = threadIdx.x; e < args.experts; e += kRouterThreads)
    args.out[e] = static_cast<float>(args.quantile[e] - mean);
}

}  // namespace

void count_margins(const MarginCounts& args, Stream stream) {
  if (!args.accumulate)
    launch("clear_margins", clear_margins_kernel,
           grid_for_elements(1, args.experts * args.bins, 1, kRouterThreads), kRouterThreads,
           stream, args);
  launch("count_margins", count_margins_kernel, Grid(blocks_for(args.tokens, kRouterWarps)),
         kRouterThreads, stream, args);
}

void quantile_bias(const QuantileBias& args, Stream stream) {
  launch("quantile", quantile_kernel, Grid(blocks_for(args.experts, kRouterWarps)), kRouterThreads,
         stream, args);
  launch("center_bias", center_bias_kernel, Grid(1), kRouterThreads, stream, args);
}

VIADUCT_KERNEL_FILE(load_quantile)

}  // namespace viaduct::cuda
