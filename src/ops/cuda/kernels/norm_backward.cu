// Gradients of norms. A block takes a part of the rows, one after the other, and adds to its own
// sums of the weight's gradient, which stay in the second-level cache.

#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

struct RowStatistics {
  float mean, rstd, mean_g, projection;  // of g = dy · w, and of g on x̂
};

template <int kRun>
__device__ RowStatistics statistics_of(const NormBackwardRows& args, int64_t row) {
  RowStatistics s{args.mean != nullptr ? args.mean[row] : 0.0f, args.rstd[row], 0, 0};
  const void *const x_row = address_of(args.x, row), *const dy_row = address_of(args.dy, row);
  for_row<kRun>(static_cast<int>(threadIdx.x), kRowThreads, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n], dy[n], w[n];
    load(x_row, args.x.format, i, x);
    load(dy_row, args.dy.format, i, dy);
    load(args.weight, i, w);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float g = dy[j] * (w[j] + args.weight_offset);
      s.mean_g += g;
      s.projection = fmaf(g, (x[j] - s.mean) * s.rstd, s.projection);
    }
  });
  const float inverse = 1.0f / static_cast<float>(args.width);
  s.mean_g = args.layer_norm ? join_block<kRowThreads>(s.mean_g, SumOf{}) * inverse : 0.0f;
  s.projection = join_block<kRowThreads>(s.projection, SumOf{}) * inverse;
  return s;
}

/// dx of a row, and its share of the sums [width]; the part's first row begins them.
template <int kRun>
__device__ void write_row(const NormBackwardRows& args, int64_t row, const RowStatistics& s,
                          bool first, float* d_weight, float* d_bias) {
  const void *const x_row = address_of(args.x, row), *const dy_row = address_of(args.dy, row);
  const bool adds = args.dx_add.data != nullptr;
  const void* const add_row = adds ? address_of(args.dx_add, row) : nullptr;
  void* const dx_row = address_of(args.dx, row);
  for_row<kRun>(static_cast<int>(threadIdx.x), kRowThreads, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n], dy[n], w[n], more[n] = {}, dw[n] = {}, db[n] = {}, dx[n];
    load(x_row, args.x.format, i, x);
    load(dy_row, args.dy.format, i, dy);
    load(args.weight, i, w);
    if (adds) load(add_row, args.dx_add.format, i, more);
    if (!first) load_run(d_weight + i, dw);
    if (!first && d_bias != nullptr) load_run(d_bias + i, db);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float x_hat = (x[j] - s.mean) * s.rstd;
      dw[j] = fmaf(dy[j], x_hat, dw[j]);
      db[j] += dy[j];
      const float g = dy[j] * (w[j] + args.weight_offset);
      dx[j] = s.rstd * fmaf(-x_hat, s.projection, g - s.mean_g);
      if (adds) dx[j] = more[j] + dx[j];
    }
    store_run(d_weight + i, dw);
    if (d_bias != nullptr) store_run(d_bias + i, db);
    store(dx_row, args.dx.format, i, dx);
  });
}

template <int kRun>
__global__ void __launch_bounds__(kRowThreads) norm_backward_kernel(NormBackwardRows args) {
  const int64_t part = blockIdx.x;
  const int64_t begin = part * args.rows / args.parts, end = (part + 1) * args.rows / args.parts;
  float* const d_weight = args.partial + part * args.width;
  float* const d_bias =
      args.d_bias != nullptr ? args.partial + (args.parts + part) * args.width : nullptr;
  for (int64_t row = begin; row < end; ++row) {
    const RowStatistics s = statistics_of<kRun>(args, row);
    write_row<kRun>(args, row, s, row == begin, d_weight, d_bias);
  }
}

}  // namespace

void norm_backward(const NormBackwardRows& args, Stream stream) {
  if (args.rows == 0) return;
  const bool wide = is_wide(args.x) && is_wide(args.dy) && is_wide(args.dx) &&
                    is_wide(args.dx_add) && is_wide(args.weight) && is_wide(args.partial) &&
                    args.width % 8 == 0;
  launch("norm_backward", wide ? norm_backward_kernel<8> : norm_backward_kernel<1>,
         Grid(args.parts), kRowThreads, stream, args);
  add_parts({args.partial, args.d_weight, args.d_bias, true, args.parts, args.width}, stream);
}

VIADUCT_KERNEL_FILE(norm_backward)

}  // namespace viaduct::cuda
