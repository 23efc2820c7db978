// 16-bit operands go to the matrix units: a block of four warps has a tile of 64 × 64, a warp a
// quarter of it, and tiles of the operands, 32 deep, are copied to shared memory while the ones
// before are multiplied. FP32 stays with fused multiply-adds of the vector units.

#include "ops/cuda/kernels/grouped_gemm.h"

#include "ops/cuda/kernels/async_copy.cuh"
#include "ops/cuda/kernels/grouped_multiply.cuh"
#include "ops/cuda/kernels/grouped_tile.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kTile = static_cast<int>(kGroupedTile);
constexpr int kThreads = kGroupedThreads, kDepth = kGroupedDepth, kRun = 8;
constexpr int kFloatThreads = 256, kFloatDepth = 16, kOwn = 4;

/// Rows [row, row + 64) of an operand with `height` rows, depths [depth, depth + 32) of `most`;
/// zeros beyond. kWide: runs of 8 elements are whole and aligned.
template <bool kLast, bool kWide>
__device__ void fill_tile(SharedTile<kLast>& to, const uint16_t* from, int64_t stride, int64_t row,
                          int64_t height, int64_t depth, int64_t most) {
  using Tile = SharedTile<kLast>;
  const int64_t first = kLast ? row : depth, first_column = kLast ? depth : row;
  const int64_t rows = kLast ? height : most, columns = kLast ? most : height;
  constexpr int kEach = kWide ? kRun : 1, kAcross = Tile::kColumns / kEach;
  for (int at = static_cast<int>(threadIdx.x); at < Tile::kRows * kAcross; at += kThreads) {
    const int r = at / kAcross, c = at % kAcross * kEach;
    const int64_t i = first + r, j = first_column + c;
    const bool there = i < rows && j < columns;
    const uint16_t* source = there ? from + i * stride + j : from;
    if constexpr (kWide) {
      begin_copy(&to.values[r][c], source, there);
    } else {
      to.values[r][c] = there ? *source : uint16_t{0};
    }
  }
}

template <class T, bool kLastA, bool kLastB, bool kWide>
__global__ void __launch_bounds__(kThreads) grouped_gemm_kernel(GroupedProduct args) {
  const GroupedTile<uint16_t> tile = grouped_tile<uint16_t>(args);
  if (!tile.there) return;  // the whole block
  auto& shared_tiles = shared<SharedTiles<kLastA, kLastB>>();
  const int64_t steps = (tile.depth + kDepth - 1) / kDepth;
  const auto fill = [&](int64_t step) {
    const int stage = static_cast<int>(step % kGroupedStages);
    fill_tile<kLastA, kWide>(shared_tiles.a[stage], tile.a, args.a_stride, tile.row, tile.height,
                             step * kDepth, tile.depth);
    fill_tile<kLastB, kWide>(shared_tiles.b[stage], tile.b, args.b_stride, tile.column, tile.width,
                             step * kDepth, tile.depth);
  };
  const int row = quarter_row(), column = quarter_column();
  QuarterSums sums;
  if (steps > 0) fill(0);
  commit_copies();
  for (int64_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) fill(step + 1);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    const int stage = static_cast<int>(step % kGroupedStages);
    multiply_tiles<T>(sums, shared_tiles.a[stage], shared_tiles.b[stage], row, column);
    __syncthreads();
  }
  for_quarter(row, column, [&](int r, int c, int i, int j, int e) {
    store_sum(args, tile, tile.row + r, tile.column + c, sums.d[i][j][e]);
  });
}

/// Depths of both operands, each [depth, 64].
struct FloatTiles {
  float a[kFloatDepth][kTile + 4], b[kFloatDepth][kTile + 4];
};

template <bool kLast>
__device__ void fill_floats(float (&to)[kFloatDepth][kTile + 4], const float* from, int64_t stride,
                            int64_t row, int64_t height, int64_t depth, int64_t most) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kFloatDepth; at += kFloatThreads) {
    const int r = kLast ? at / kFloatDepth : at % kTile;
    const int l = kLast ? at % kFloatDepth : at / kTile;
    const bool there = row + r < height && depth + l < most;
    const int64_t place = kLast ? (row + r) * stride + depth + l : (depth + l) * stride + row + r;
    to[l][r] = there ? from[place] : 0.0f;
  }
}

template <bool kLastA, bool kLastB>
__global__ void __launch_bounds__(kFloatThreads, 3) grouped_gemm_f32_kernel(GroupedProduct args) {
  const GroupedTile<float> tile = grouped_tile<float>(args);
  if (!tile.there) return;  // the whole block
  FloatTiles& tiles = shared<FloatTiles>();
  const int row = static_cast<int>(threadIdx.x) / 16 * kOwn;
  const int column = static_cast<int>(threadIdx.x) % 16 * kOwn;
  float sums[kOwn][kOwn] = {};
  for (int64_t depth = 0; depth < tile.depth; depth += kFloatDepth) {
    fill_floats<kLastA>(tiles.a, tile.a, args.a_stride, tile.row, tile.height, depth, tile.depth);
    fill_floats<kLastB>(tiles.b, tile.b, args.b_stride, tile.column, tile.width, depth, tile.depth);
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kFloatDepth; ++l) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j)
          sums[i][j] = fmaf(tiles.a[l][row + i], tiles.b[l][column + j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      store_sum(args, tile, tile.row + row + i, tile.column + column + j, sums[i][j]);
  }
}

template <bool kLastA, bool kLastB>
void launch_form(const GroupedProduct& args, Stream stream) {
  const Grid grid(grouped_tiles(args));
  if (args.format == Format::f32)
    return launch("grouped_gemm", grouped_gemm_f32_kernel<kLastA, kLastB>, grid, kFloatThreads,
                  stream, args);
  const bool wide = is_wide(args.a) && is_wide(args.b) && args.n % kRun == 0 &&
                    args.k % kRun == 0 && args.a_stride % kRun == 0 && args.b_stride % kRun == 0;
  if (args.format == Format::bf16) {
    launch("grouped_gemm",
           wide ? grouped_gemm_kernel<Bf16, kLastA, kLastB, true>
                : grouped_gemm_kernel<Bf16, kLastA, kLastB, false>,
           grid, kThreads, stream, args);
  } else {
    launch("grouped_gemm",
           wide ? grouped_gemm_kernel<F16, kLastA, kLastB, true>
                : grouped_gemm_kernel<F16, kLastA, kLastB, false>,
           grid, kThreads, stream, args);
  }
}

}  // namespace

void grouped_gemm(const GroupedProduct& args, Stream stream) {
  for_form(args.form, [&](auto last_a, auto last_b) {
    launch_form<decltype(last_a)::value, decltype(last_b)::value>(args, stream);
  });
}

VIADUCT_KERNEL_FILE(grouped_gemm)

}  // namespace viaduct::cuda
