// Values of 64 × 64 elements go through shared memory, so that reads and writes are both along
// rows.

#include "ops/cuda/kernels/product_operands.h"

#include "ops/cuda/kernels/float8.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256, kSide = 64;

/// [kept, contracted], an element a byte; rows begin in different banks.
struct ValueTile {
  uint8_t values[kSide][kSide + 4];
};

template <int kInByte>
__global__ void __launch_bounds__(kThreads) order_values_kernel(OperandValues args) {
  ValueTile& tile = shared<ValueTile>();
  const int64_t first_row = int64_t{blockIdx.y} * kSide, first_column = int64_t{blockIdx.x} * kSide;
  const bool last = args.contracted_stride == 1;
  constexpr int kAcross = kSide / kInByte;
  for (int at = static_cast<int>(threadIdx.x); at < kSide * kAcross; at += kThreads) {
    const int slow = at / kAcross, fast = at % kAcross * kInByte;
    const int row = last ? slow : fast, column = last ? fast : slow;
    const int64_t i = first_row + row, k = first_column + column;
    uint8_t byte = 0;
    if (i < args.kept && k < args.contracted)
      byte = args.from[(i * args.kept_stride + k * args.contracted_stride) / kInByte];
    tile.values[row][column] = kInByte == 1 ? byte : byte & 15;
    if (kInByte == 2) tile.values[last ? row : row + 1][last ? column + 1 : column] = byte >> 4;
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < kSide * kAcross; at += kThreads) {
    const int row = at / kAcross, column = at % kAcross * kInByte;
    const int64_t i = first_row + row, k = first_column + column;
    if (i >= args.rows || k >= args.columns) continue;
    uint8_t byte = tile.values[row][column];
    if (kInByte == 2) byte |= static_cast<uint8_t>(tile.values[row][column + 1] << 4);
    args.to[(i * args.columns + k) / kInByte] = byte;
  }
}

__device__ int64_t place_of(const OperandScales& args, int64_t row, int64_t column) {
  switch (args.order) {
    case ScaleOrder::columns_last:
      return row * args.columns + column;
    case ScaleOrder::rows_last:
      return column * args.rows + row;
    case ScaleOrder::tiles:
      break;
  }
  return (row / 128 * (args.columns / 4) + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 +
         column % 4;
}

__global__ void __launch_bounds__(kThreads) order_scales_kernel(OperandScales args) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < args.rows * args.columns;
       at += step) {
    const int64_t row = at / args.columns, column = at % args.columns;
    const int64_t i = row * args.row_elements, l = column * args.column_elements;
    const bool there = i < args.kept && l < args.contracted;
    const int64_t from =
        i / args.kept_group * args.kept_stride + l / args.contracted_group * args.contracted_stride;
    const int64_t to = place_of(args, row, column);
    if (args.powers) {
      const uint8_t power =
          there ? power_not_below(static_cast<const float*>(args.from)[from]) : uint8_t{0};
      static_cast<uint8_t*>(args.to)[to] = power;
    } else if (args.wide) {
      static_cast<float*>(args.to)[to] = there ? static_cast<const float*>(args.from)[from] : 0.0f;
    } else {
      static_cast<uint8_t*>(args.to)[to] =
          there ? static_cast<const uint8_t*>(args.from)[from] : uint8_t{0};
    }
  }
}

__global__ void product_factor_kernel(const float* a, const float* b, float beta, float* out) {
  out[0] = a[0] * b[0], out[1] = beta;
}

}  // namespace

void order_values(const OperandValues& args, Stream stream) {
  const Grid grid(blocks_for(args.columns, kSide), blocks_for(args.rows, kSide));
  launch("order_values", args.halves ? order_values_kernel<2> : order_values_kernel<1>, grid,
         kThreads, stream, args);
}

void order_scales(const OperandScales& args, Stream stream) {
  launch("order_scales", order_scales_kernel,
         grid_for_elements(1, args.rows * args.columns, 1, kThreads), kThreads, stream, args);
}

void product_factor(const float* a, const float* b, float beta, float* out, Stream stream) {
  launch("product_factor", product_factor_kernel, Grid(1), 1, stream, a, b, beta, out);
}

VIADUCT_KERNEL_FILE(product_operands)

}  // namespace viaduct::cuda
