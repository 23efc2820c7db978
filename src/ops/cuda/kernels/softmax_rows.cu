#include "ops/cuda/kernels/softmax_rows.h"

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

/// The index of a row's target among the columns; −1: not among them.
__device__ int64_t place_of(const int32_t* targets, int64_t row, int64_t first_column,
                            int64_t columns) {
  const int64_t place = targets[row] - first_column;
  return place >= 0 && place < columns ? place : -1;
}

__global__ void __launch_bounds__(kRowThreads) soft_cap_kernel(SoftCapRows args) {
  const float inverse = 1.0f / args.cap;
  for_elements<1>(args.rows, args.width, kRowThreads, [&](int64_t row, int64_t i, auto) {
    const float x = args.x.data[row * args.x.stride + i];
    float out;
    if (args.z.data == nullptr) {
      out = args.cap * tanhf(x * inverse);
    } else {
      const float u = args.z.data[row * args.z.stride + i] * inverse;
      out = x * fmaf(-u, u, 1.0f);
    }
    args.out.data[row * args.out.stride + i] = out;
  });
}

template <int kThreads>
__global__ void __launch_bounds__(kRowThreads) row_values_kernel(RowValues args) {
  using Group = RowGroup<kThreads>;
  const int64_t row = Group::row();
  if (row >= args.rows) return;
  const float* const x = args.x.data + row * args.x.stride;
  const bool sums = args.kind == RowValue::sum;
  float value = sums ? 0.0f : -INFINITY;
  for (int64_t i = Group::thread(); i < args.columns; i += kThreads)
    value = sums ? value + x[i] : LargestOf{}(value, x[i]);
  value = sums ? Group::join(value, SumOf{}) : Group::join(value, LargestOf{});
  if (Group::thread() == 0) args.out[row] = value;
}

__global__ void __launch_bounds__(kRowThreads) row_pick_kernel(RowValues args) {
  const int64_t row = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (row >= args.rows) return;
  const int64_t place = place_of(args.targets, row, args.first_column, args.columns);
  args.out[row] = place < 0 ? 0.0f : args.x.data[row * args.x.stride + place];
}

__global__ void __launch_bounds__(kRowThreads) rows_by_value_kernel(RowsByValue args) {
  for_elements<1>(args.rows, args.width, kRowThreads, [&](int64_t row, int64_t i, auto) {
    const float value = args.value[row];
    float out = 0;
    if (i < args.columns) {
      const float x = args.x.data[row * args.x.stride + i];
      out = args.exponential ? expf(x - value) : x / value;
    }
    args.out.data[row * args.out.stride + i] = out;
  });
}

__global__ void __launch_bounds__(kRowThreads) loss_backward_kernel(SoftmaxLossRows args) {
  for_elements<1>(args.rows, args.width, kRowThreads, [&](int64_t row, int64_t i, auto) {
    const auto scale = static_cast<float>(static_cast<double>(args.weight[row]) * args.factor[0]);
    float out = 0;
    if (scale != 0 && i < args.columns) {
      const float p = args.probabilities.data[row * args.probabilities.stride + i];
      out = scale *
            (i == place_of(args.targets, row, args.first_column, args.columns) ? p - 1.0f : p);
    }
    args.out.data[row * args.out.stride + i] = out;
  });
}

}  // namespace

void soft_cap(const SoftCapRows& args, Stream stream) {
  launch("soft_cap", soft_cap_kernel, grid_for_elements(args.rows, args.width, 1, kRowThreads),
         kRowThreads, stream, args);
}

void row_values(const RowValues& args, Stream stream) {
  if (args.kind == RowValue::pick) {
    return launch("row_pick", row_pick_kernel, Grid(blocks_for(args.rows, kRowThreads)),
                  kRowThreads, stream, args);
  }
  with_row_group(false, args.columns, [&](auto, auto threads) {
    constexpr int kThreads = decltype(threads)::value;
    launch("row_values", row_values_kernel<kThreads>,
           Grid(blocks_for(args.rows, kRowThreads / kThreads)), kRowThreads, stream, args);
  });
}

void rows_by_value(const RowsByValue& args, Stream stream) {
  launch("rows_by_value", rows_by_value_kernel,
         grid_for_elements(args.rows, args.width, 1, kRowThreads), kRowThreads, stream, args);
}

void softmax_loss_backward(const SoftmaxLossRows& args, Stream stream) {
  launch("softmax_loss_backward", loss_backward_kernel,
         grid_for_elements(args.rows, args.width, 1, kRowThreads), kRowThreads, stream, args);
}

VIADUCT_KERNEL_FILE(softmax_rows)

}  // namespace viaduct::cuda
