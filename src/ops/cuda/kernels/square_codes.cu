// NVFP4 codes of a part of a weight: a thread has a square for its magnitude and its scale, and two
// neighbouring elements for their byte. So no two threads write one value.

#include "ops/cuda/kernels/nvfp4.cuh"
#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kSide = 16;
constexpr uint32_t kInfinity = 0x7f800000u;

__host__ __device__ int64_t squares_of(int64_t columns) {
  return (columns + kSide - 1) / kSide;
}

/// Squares [first, first + count) from top to bottom that have elements of the part.
struct Bands {
  int64_t first, count;
};
__host__ __device__ Bands bands_of(const SquarePart& args) {
  const int64_t first = args.begin / args.columns / kSide;
  return {first, (args.begin + args.count - 1) / args.columns / kSide + 1 - first};
}

__global__ void __launch_bounds__(kRowThreads) square_magnitudes_kernel(SquarePart args) {
  const int64_t across = squares_of(args.columns);
  const Bands bands = bands_of(args);
  for_elements<1>(bands.count, across, kRowThreads, [&](int64_t band, int64_t square, auto) {
    const int64_t row_begin = (bands.first + band) * kSide, column_begin = square * kSide;
    const int64_t column_end =
        column_begin + kSide < args.columns ? column_begin + kSide : args.columns;
    uint32_t most = 0;
#pragma unroll 1  // the square is small, and its addresses would not fit in registers
    for (int64_t row = row_begin; row < row_begin + kSide; ++row) {
      const int64_t first = row * args.columns + column_begin - args.begin;
      const int64_t next = first + column_end - column_begin;
      const int64_t last = next < args.count ? next : args.count;
#pragma unroll 1
      for (int64_t at = first < 0 ? 0 : first; at < last; ++at) {
        float x[1];
        load(args.part, at, x);
        most = LargestOf{}(most, __float_as_uint(x[0]) & 0x7fffffffu);
      }
    }
    float& magnitude = args.magnitudes[(bands.first + band) * across + square];
    most = LargestOf{}(__float_as_uint(magnitude), most);
    magnitude = __uint_as_float(most < kInfinity ? most : kInfinity);
  });
}

__global__ void __launch_bounds__(kRowThreads) square_scales_kernel(SquareScales args) {
  const float matrix_scale = matrix_scale_of(args.amax[0]);
  if (blockIdx.x == 0 && threadIdx.x == 0) *args.matrix_scale = matrix_scale;
  for_elements<1>(1, args.count, kRowThreads, [&](int64_t, int64_t i, auto) {
    args.scales[i] = group_scale_of(args.magnitudes[i], matrix_scale);
  });
}

__global__ void __launch_bounds__(kRowThreads) square_codes_kernel(SquarePart args) {
  const int64_t across = squares_of(args.columns);
  const float matrix_scale = *args.matrix_scale;
  for_elements<1>(1, args.count / 2, kRowThreads, [&](int64_t, int64_t pair, auto) {
    // Rows and squares begin at even columns: both elements have one scale.
    const int64_t at = args.begin + 2 * pair, row = at / args.columns, column = at % args.columns;
    const float divisor =
        divisor_of(args.scales[row / kSide * across + column / kSide], matrix_scale);
    float even[1], odd[1];
    load(args.part, 2 * pair, even);
    load(args.part, 2 * pair + 1, odd);
    args.codes[pair] =
        static_cast<uint8_t>(nearest_e2m1(even[0] / divisor) | nearest_e2m1(odd[0] / divisor) << 4);
  });
}

}  // namespace

void square_magnitudes(const SquarePart& args, Stream stream) {
  if (args.count == 0) return;
  launch("square_magnitudes", square_magnitudes_kernel,
         grid_for_elements(bands_of(args).count, squares_of(args.columns), 1, kRowThreads),
         kRowThreads, stream, args);
}

void square_scales(const SquareScales& args, Stream stream) {
  // A matrix without elements still has a scale.
  const Grid grid = grid_for_elements(1, args.count, 1, kRowThreads);
  launch("square_scales", square_scales_kernel, grid.x > 0 ? grid : Grid(1), kRowThreads, stream,
         args);
}

void square_codes(const SquarePart& args, Stream stream) {
  launch("square_codes", square_codes_kernel, grid_for_elements(1, args.count / 2, 1, kRowThreads),
         kRowThreads, stream, args);
}

VIADUCT_KERNEL_FILE(square_codes)

}  // namespace viaduct::cuda
