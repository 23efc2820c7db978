// Softmax cross entropy: a block for each row. The forward reads a row twice (its maximum, then the
// sum of exponentials), the second time from a cache; the backward once, in place if wanted.

#include "ops/cuda/kernels/cross_entropy.h"

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr float kLowest = -3.4028234663852886e38f;

__device__ float capped(float z, float softcap) {
  return softcap > 0 ? softcap * tanhf(z / softcap) : z;
}

/// The column of a row's target, −1 if it has none here.
__device__ int64_t target_column(const int32_t* targets, int64_t row, int64_t first_column,
                                 int64_t columns) {
  const int64_t column = int64_t{targets[row]} - first_column;
  return targets[row] >= 0 && column >= 0 && column < columns ? column : -1;
}

template <int kRun, class F>
__device__ void for_logits(const Rows& logits, int64_t row, int64_t columns, F&& f) {
  const void* const from = address_of(logits, row);
  for_row<kRun>(static_cast<int>(threadIdx.x), kRowThreads, columns, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float z[n];
    load(from, logits.format, i, z);
#pragma unroll
    for (int j = 0; j < n; ++j) f(z[j]);
  });
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_kernel(CrossEntropyRows args) {
  const int64_t row = blockIdx.x;
  float largest = kLowest;
  for_logits<kRun>(args.logits, row, args.columns, [&](float z) {
    const float v = capped(z, args.softcap);
    largest = v > largest ? v : largest;
  });
  largest = join_block<kRowThreads>(largest, LargestOf{});
  // The largest is counted separately: next to its 1, small terms would lose digits.
  float sum = 0, tops = 0;
  for_logits<kRun>(args.logits, row, args.columns, [&](float z) {
    const float v = capped(z, args.softcap);
    if (v == largest) {
      tops += 1.0f;
    } else {
      sum += expf(v - largest);
    }
  });
  const double all = join_block<kRowThreads>(static_cast<double>(sum), SumOf{}) +
                     join_block<kRowThreads>(static_cast<double>(tops), SumOf{});
  if (threadIdx.x != 0) return;
  const int64_t target = target_column(args.targets, row, args.first_column, args.columns);
  float z[1] = {0};
  if (target >= 0) load(address_of(args.logits, row), args.logits.format, target, z);
  args.lse[row] = static_cast<double>(largest) + log(all);
  args.target_logit[row] = target >= 0 ? static_cast<double>(capped(z[0], args.softcap)) : 0.0;
}

/// weight · factor · (softmax(z) − onehot) · dsoftcap of one element.
struct RowGradient {
  double lse;
  float high, low, scale, softcap;  // lse in two parts

  __device__ float operator()(float logit, bool is_target) const {
    float z = logit, slope = scale;
    if (softcap > 0) {
      const float t = tanhf(logit / softcap);
      z = softcap * t;
      slope = scale * fmaf(-t, t, 1.0f);
    }
    // p − 1 of a token with p near 1 is small: exp(…) − 1 would have cancelled it.
    const float p =
        is_target ? static_cast<float>(expm1(static_cast<double>(z) - lse)) : expf(z - high - low);
    return slope * p;
  }
};

template <int kRun>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_gradient_kernel(CrossEntropyGradientRows args) {
  const int64_t row = blockIdx.x;
  const float weight = args.weight[row];
  const double lse = args.lse[row];
  const int64_t target = target_column(args.targets, row, args.first_column, args.columns);
  RowGradient gradient{lse, static_cast<float>(lse), 0,
                       static_cast<float>(static_cast<double>(weight) * args.factor[0]),
                       args.softcap};
  gradient.low = static_cast<float>(lse - static_cast<double>(gradient.high));
  const void* const from = address_of(args.logits, row);
  void* const to = address_of(args.out, row);
  for_row<kRun>(static_cast<int>(threadIdx.x), kRowThreads, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float z[n], out[n];
    load(from, args.logits.format, i, z);
#pragma unroll
    for (int j = 0; j < n; ++j)
      out[j] = i + j < args.columns && weight != 0 ? gradient(z[j], i + j == target) : 0.0f;
    store(to, args.out.format, i, out);
  });
}

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    lse_share_kernel(const double* lse, const double* largest, double* share, int64_t count) {
  for_elements<1>(1, count, kThreads, [&](int64_t, int64_t i, auto) {
    share[i] = lse[i] == largest[i] ? 1.0 : exp(lse[i] - largest[i]);
  });
}

__global__ void __launch_bounds__(kThreads)
    lse_join_kernel(const double* shares, const double* largest, double* lse, int64_t count) {
  for_elements<1>(1, count, kThreads,
                  [&](int64_t, int64_t i, auto) { lse[i] = largest[i] + log(shares[i]); });
}

}  // namespace

void cross_entropy_forward(const CrossEntropyRows& args, Stream stream) {
  launch("cross_entropy_forward",
         is_wide(args.logits) ? cross_entropy_kernel<8> : cross_entropy_kernel<1>, Grid(args.rows),
         kRowThreads, stream, args);
}

void cross_entropy_backward(const CrossEntropyGradientRows& args, Stream stream) {
  const bool wide = is_wide(args.logits) && is_wide(args.out);
  launch("cross_entropy_backward",
         wide ? cross_entropy_gradient_kernel<8> : cross_entropy_gradient_kernel<1>,
         Grid(args.rows), kRowThreads, stream, args);
}

void lse_share(const double* lse, const double* largest, double* share, int64_t count,
               Stream stream) {
  launch("lse_share", lse_share_kernel, grid_for_elements(1, count, 1, kThreads), kThreads, stream,
         lse, largest, share, count);
}

void lse_join(const double* shares, const double* largest, double* lse, int64_t count,
              Stream stream) {
  launch("lse_join", lse_join_kernel, grid_for_elements(1, count, 1, kThreads), kThreads, stream,
         shares, largest, lse, count);
}

VIADUCT_KERNEL_FILE(cross_entropy)

}  // namespace viaduct::cuda
