#include "ops/cuda/kernels/softmax_rows.h"

#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

/// The column of a row's target; −1: it is not among the columns.
__device__ int64_t target_of(const int32_t* targets, int64_t row, int64_t first_column,
                             int64_t columns) {
  const int64_t column = targets[row] - first_column;
  return column >= 0 && column < columns ? column : -1;
}

template <int kThreads>
__global__ void __launch_bounds__(kRowThreads) row_values_kernel(ReducedRows args) {
  using Group = RowGroup<kThreads>;
  const int64_t row = Group::row();
  if (row >= args.rows) return;
  const float* const x = args.x.data + row * args.x.stride;
  float value = args.sum ? 0.0f : -INFINITY;
  for (int64_t i = Group::thread(); i < args.columns; i += kThreads)
    value = args.sum ? value + x[i] : LargestOf{}(value, x[i]);
  value = args.sum ? Group::join(value, SumOf{}) : Group::join(value, LargestOf{});
  if (Group::thread() == 0) args.out[row] = value;
}

__global__ void __launch_bounds__(kRowThreads) row_pick_kernel(ReducedRows args) {
  const int64_t row = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (row >= args.rows) return;
  const int64_t target = target_of(args.targets, row, args.first_column, args.columns);
  args.out[row] = target < 0 ? 0.0f : args.x.data[row * args.x.stride + target];
}

/// Of element i of a row.
__device__ float mapped(const MappedRows& args, int64_t row, int64_t i) {
  const float x = args.x.data[row * args.x.stride + i];
  switch (args.formula) {
    case RowFormula::soft_cap:
      return args.cap * tanhf(x * (1.0f / args.cap));
    case RowFormula::soft_cap_backward: {
      const float u = args.by.data[row * args.by.stride + i] * (1.0f / args.cap);
      return x * fmaf(-u, u, 1.0f);
    }
    case RowFormula::exponential:
      return expf(x - args.by.data[row]);
    case RowFormula::divide:
      return x / args.by.data[row];
    case RowFormula::loss_backward: {
      const auto scale = static_cast<float>(static_cast<double>(args.weight[row]) * args.factor[0]);
      if (scale == 0) return 0;
      return scale *
             (i == target_of(args.targets, row, args.first_column, args.columns) ? x - 1.0f : x);
    }
  }
  return 0;
}

__global__ void __launch_bounds__(kRowThreads) map_rows_kernel(MappedRows args) {
  for_elements<1>(args.rows, args.width, kRowThreads, [&](int64_t row, int64_t i, auto) {
    args.out.data[row * args.out.stride + i] = i < args.columns ? mapped(args, row, i) : 0.0f;
  });
}

}  // namespace

void reduce_rows(const ReducedRows& args, Stream stream) {
  if (args.targets != nullptr) {
    return launch("row_pick", row_pick_kernel, Grid(blocks_for(args.rows, kRowThreads)),
                  kRowThreads, stream, args);
  }
  with_row_group(false, args.columns, [&](auto, auto threads) {
    constexpr int kThreads = decltype(threads)::value;
    launch("row_values", row_values_kernel<kThreads>,
           Grid(blocks_for(args.rows, kRowThreads / kThreads)), kRowThreads, stream, args);
  });
}

void map_rows(const MappedRows& args, Stream stream) {
  launch("map_rows", map_rows_kernel, grid_for_elements(args.rows, args.width, 1, kRowThreads),
         kRowThreads, stream, args);
}

VIADUCT_KERNEL_FILE(softmax_rows)

}  // namespace viaduct::cuda
