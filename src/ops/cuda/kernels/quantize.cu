// FP8 operands: a warp for each group of rows and columns that share a scale (or for 32 columns of
// narrower groups), which reads the group twice; quantize_tiles.cu has those that it can take.

#include "ops/cuda/kernels/quantize.h"

#include "ops/cuda/kernels/float8.cuh"
#include "ops/cuda/kernels/matrix_rows.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float element_of(const QuantizedRows& args, int64_t row, int64_t column) {
  float x[1];
  load(address_of(args.matrix, row), args.matrix.format, column, x);
  return x[0];
}

__global__ void __launch_bounds__(kThreads)
    quantize_groups_kernel(QuantizedRows args, int64_t tiles) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t width = args.group_columns < kWarpLanes ? kWarpLanes : args.group_columns;
  const int64_t across = (args.columns + width - 1) / width;
  const int64_t tile = int64_t{blockIdx.x} * (kThreads / kWarpLanes) + threadIdx.x / kWarpLanes;
  if (tile >= tiles) return;  // the whole warp
  const RowsOfGroup group = rows_of_group(args.rows, tile / across, args.group_rows);
  if (group.begin >= group.end) return;
  const int64_t row_begin = group.begin, row_end = group.end, column_begin = tile % across * width;
  const int64_t column_end = min(args.columns, column_begin + width);
  uint32_t most = 0;
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t c = column_begin + lane; c < column_end; c += kWarpLanes)
      most = LargestOf{}(most, __float_as_uint(element_of(args, r, c)) & 0x7fffffffu);
  }
  for (int bits = kWarpLanes / 2; bits > 0; bits /= 2) {
    if (bits < args.group_columns) most = LargestOf{}(most, __shfl_xor_sync(kAllLanes, most, bits));
  }
  const float scale = scale_of(__uint_as_float(most), args.e5m2, false);
  const int64_t own = column_begin + lane;  // the first column of this lane
  if (own < column_end && lane % args.group_columns == 0) {
    const int64_t group_row =
        args.rows.offsets != nullptr
            ? tile / across * args.scale_row_stride
            : group.matrix * args.scale_matrix_stride + group.number * args.scale_row_stride;
    store_scale(args.scales, args.scale_powers,
                group_row + own / args.group_columns * args.scale_column_stride, scale);
  }
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t c = own; c < column_end; c += kWarpLanes) {
      args.values[r * args.values_stride + c] =
          encode_float8(element_of(args, r, c) / scale, args.e5m2);
    }
  }
}

template <int kRun>
__global__ void __launch_bounds__(kThreads)
    quantize_matrix_kernel(QuantizedRows args, int64_t groups) {
  if (blockIdx.x == 0) {
    for (int64_t m = threadIdx.x; m < args.rows.count; m += kThreads)
      store_scale(args.scales, args.scale_powers, m, scale_of(args.amax[m], args.e5m2, true));
  }
  for_elements<kRun>(groups, args.columns, kThreads, [&](int64_t at, int64_t i, auto count) {
    constexpr int n = decltype(count)::value;
    const RowsOfGroup group = rows_of_group(args.rows, at, 1);
    if (group.begin >= group.end) return;
    const int64_t row = group.begin;
    const float scale = scale_of(args.amax[group.matrix], args.e5m2, true);
    float x[n];
    Run<uint8_t, n> codes;
    load(address_of(args.matrix, row), args.matrix.format, i, x);
#pragma unroll
    for (int j = 0; j < n; ++j) codes.values[j] = encode_float8(x[j] / scale, args.e5m2);
    *reinterpret_cast<Run<uint8_t, n>*>(args.values + row * args.values_stride + i) = codes;
  });
}

}  // namespace

void quantize(const QuantizedRows& args, Stream stream) {
  if (quantize_tiles(args, stream)) return;
  if (args.amax == nullptr) {
    const int64_t width = args.group_columns < kWarpLanes ? kWarpLanes : args.group_columns;
    const int64_t tiles = blocks_for(args.columns, width) * row_groups(args.rows, args.group_rows);
    launch("quantize", quantize_groups_kernel, Grid(blocks_for(tiles, kThreads / kWarpLanes)),
           kThreads, stream, args, tiles);
    return;
  }
  const bool wide = is_wide(args.matrix) && is_wide(args.values) && args.values_stride % 8 == 0;
  // A matrix without elements still has a scale.
  const int64_t groups = args.columns > 0 ? row_groups(args.rows, 1) : 0;
  const Grid grid = grid_for_elements(groups, args.columns, wide ? 8 : 1, kThreads);
  launch("quantize", wide ? quantize_matrix_kernel<8> : quantize_matrix_kernel<1>,
         Grid(grid.x > 0 ? grid.x : 1), kThreads, stream, args, groups);
}

VIADUCT_KERNEL_FILE(quantize)

}  // namespace viaduct::cuda
