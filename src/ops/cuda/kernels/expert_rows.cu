// Rows of experts, back in the order of tokens; the gradients of that, and dot products of rows.

#include "ops/cuda/kernels/expert_rows.h"

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

template <int kRun>
__global__ void __launch_bounds__(kThreads) combine_rows_kernel(CombinedRows args) {
  for_elements<kRun>(args.tokens, args.width, kThreads, [&](int64_t token, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const int32_t* const position = args.position + token * args.places;
    float sum[n] = {}, x[n];
    for (int64_t p = 0; p < args.places; ++p) {
      if (position[p] < 0) continue;
      load(address_of(args.rows, position[p]), args.rows.format, i, x);
      const float weight =
          args.weight == nullptr ? 1.0f : args.weight[(token * args.places + p) / args.copies];
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] = fmaf(weight, x[j], sum[j]);
    }
    store(address_of(args.out, token), args.out.format, i, sum);
  });
}

/// A warp for each choice of a token.
template <int kRun>
__global__ void __launch_bounds__(kRowThreads) combine_backward_kernel(CombinedRowGradients args) {
  using Group = RowGroup<kWarpLanes>;
  const int64_t choices = args.places / args.copies, choice = Group::row();
  if (choice >= args.tokens * choices) return;  // the whole warp
  const void* const d_out = address_of(args.d_out, choice / choices);
  const float weight = args.weight[choice];
  float d_weight = 0;
  for (int64_t c = 0; c < args.copies; ++c) {
    const int64_t row = args.position[choice * args.copies + c];
    if (row < 0) continue;
    const void* const from = address_of(args.rows, row);
    void* const to = address_of(args.d_rows, row);
    float product = 0;
    for_row<kRun>(Group::thread(), kWarpLanes, args.width, [&](int64_t i, auto count) {
      constexpr int n = decltype(count)::value;
      float d[n], x[n] = {};
      load(d_out, args.d_out.format, i, d);
      if (args.d_weight != nullptr) load(from, args.rows.format, i, x);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        product = fmaf(d[j], x[j], product);
        d[j] = weight * d[j];
      }
      store(to, args.d_rows.format, i, d);
    });
    if (args.d_weight != nullptr) d_weight += Group::join(product, SumOf{});
  }
  if (args.d_weight != nullptr && Group::thread() == 0) args.d_weight[choice] = d_weight;
}

/// The expert whose rows contain `row`.
__device__ int64_t expert_of(const int32_t* offsets, int64_t experts, int64_t row) {
  int64_t low = 0, high = experts - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (offsets[middle + 1] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

template <int kRun, int kThreads>
__global__ void __launch_bounds__(kRowThreads) row_dots_kernel(DotsOfRows args) {
  using Group = RowGroup<kThreads>;
  const int64_t row = Group::row();
  if (row >= args.rows) return;  // the whole group
  int64_t of = row;
  if (args.offsets != nullptr) {
    if (row < args.offsets[0] || row >= args.offsets[args.experts]) return;
    of = expert_of(args.offsets, args.experts, row);
  }
  const void* const x_row = address_of(args.x, row);
  const void* const y_row = address_of(args.y, of);
  float sum = 0;
  for_row<kRun>(Group::thread(), kThreads, args.width, [&](int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n], y[n];
    load(x_row, args.x.format, i, x);
    load(y_row, args.y.format, i, y);
#pragma unroll
    for (int j = 0; j < n; ++j) sum = fmaf(x[j], y[j], sum);
  });
  sum = Group::join(sum, SumOf{});
  if (Group::thread() == 0) args.out[row] = args.accumulate ? sum + args.out[row] : sum;
}

__global__ void __launch_bounds__(kThreads) combine_weights_kernel(CombinedWeightGradients args) {
  for_elements<1>(1, args.weights, kThreads, [&](int64_t, int64_t i, auto) {
    float sum = 0;
    for (int64_t c = 0; c < args.copies; ++c) {
      const int64_t row = args.position[i * args.copies + c];
      if (row >= 0) sum += args.dots[row];
    }
    args.d_weight[i] = args.weight[i] == 0 ? 0 : sum / args.weight[i];
  });
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) expert_bias_kernel(ExpertBiasRows args) {
  for_elements<kRun>(args.rows, args.width, kThreads, [&](int64_t row, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const int64_t expert = expert_of(args.offsets, args.experts, row);
    void* const at = address_of(args.x, row);
    float x[n], bias[n];
    load(at, args.x.format, i, x);
    load(address_of(args.bias, expert), args.bias.format, i, bias);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] += bias[j];
    store(at, args.x.format, i, x);
  });
}

__global__ void __launch_bounds__(kThreads) expert_bias_gradient_kernel(ExpertBiasGradient args) {
  const int64_t expert = blockIdx.y;
  for_elements<1>(1, args.width, kThreads, [&](int64_t, int64_t i, auto) {
    float sum = 0, dy[1];
    for (int64_t row = args.offsets[expert]; row < args.offsets[expert + 1]; ++row) {
      load(address_of(args.dy, row), args.dy.format, i, dy);
      sum += dy[0];
    }
    args.d_bias[expert * args.width + i] += sum;
  });
}

}  // namespace

void combine_rows(const CombinedRows& args, Stream stream) {
  const bool wide = is_wide(args.rows) && is_wide(args.out);
  launch("combine_rows", wide ? combine_rows_kernel<8> : combine_rows_kernel<1>,
         grid_for_elements(args.tokens, args.width, wide ? 8 : 1, kThreads), kThreads, stream,
         args);
}

void combine_rows_backward(const CombinedRowGradients& args, Stream stream) {
  const bool wide = is_wide(args.rows) && is_wide(args.d_out) && is_wide(args.d_rows);
  const int64_t choices = args.tokens * (args.places / args.copies);
  launch("combine_rows_backward", wide ? combine_backward_kernel<8> : combine_backward_kernel<1>,
         Grid(blocks_for(choices, kRowThreads / kWarpLanes)), kRowThreads, stream, args);
}

void row_dots(const DotsOfRows& args, Stream stream) {
  const bool wide = is_wide(args.x) && is_wide(args.y);
  with_row_group(wide, args.width, [&](auto run, auto threads) {
    constexpr int kGroup = decltype(threads)::value;
    launch("row_dots", row_dots_kernel<decltype(run)::value, kGroup>,
           Grid(blocks_for(args.rows, kRowThreads / kGroup)), kRowThreads, stream, args);
  });
}

void combine_weights_backward(const CombinedWeightGradients& args, Stream stream) {
  launch("combine_weights_backward", combine_weights_kernel,
         grid_for_elements(1, args.weights, 1, kThreads), kThreads, stream, args);
}

void expert_bias(const ExpertBiasRows& args, Stream stream) {
  const bool wide = is_wide(args.x) && is_wide(args.bias);
  launch("expert_bias", wide ? expert_bias_kernel<8> : expert_bias_kernel<1>,
         grid_for_elements(args.rows, args.width, wide ? 8 : 1, kThreads), kThreads, stream, args);
}

void expert_bias_backward(const ExpertBiasGradient& args, Stream stream) {
  const Grid columns = grid_for_elements(1, args.width, 1, kThreads);
  launch("expert_bias_backward", expert_bias_gradient_kernel, Grid(columns.x, args.experts),
         kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(expert_rows)

}  // namespace viaduct::cuda
