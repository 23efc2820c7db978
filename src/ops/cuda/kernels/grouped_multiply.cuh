#pragma once
// What a block of four warps does with tiles of 16-bit operands in shared memory: it multiplies
// 64 × 64 over 32 of the contracted dim, a warp a quarter.

#include "ops/cuda/kernels/grouped_gemm.h"
#include "ops/cuda/kernels/mma.cuh"

namespace viaduct::cuda {

inline constexpr int kGroupedThreads = 128, kGroupedDepth = 32, kGroupedStages = 2;

/// A tile of an operand in the order of its memory: 64 rows of 32 deep, or 32 of 64. The gap keeps
/// eight rows that a warp reads at once in different banks.
template <bool kLast>
struct SharedTile {
  static constexpr int kSide = static_cast<int>(kGroupedTile), kGap = 8;
  static constexpr int kRows = kLast ? kSide : kGroupedDepth,
                       kColumns = kLast ? kGroupedDepth : kSide;
  uint16_t values[kRows][kColumns + kGap];
};
template <bool kLastA, bool kLastB>
struct SharedTiles {
  SharedTile<kLastA> a[kGroupedStages];
  SharedTile<kLastB> b[kGroupedStages];
};

/// Of a [16, 16] that begins at (row, depth) of the tile.
template <bool kLast>
__device__ void load_a(uint32_t (&to)[4], const SharedTile<kLast>& tile, int row, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, matrix = lane / 8;
  const int i = row + matrix % 2 * 8, l = depth + matrix / 2 * 8, own = lane % 8;
  load_matrices<!kLast>(to, kLast ? &tile.values[i + own][l] : &tile.values[l + own][i]);
}
/// Of two b [16, 8] side by side.
template <bool kLast>
__device__ void load_b(uint32_t (&to)[4], const SharedTile<kLast>& tile, int column, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, matrix = lane / 8;
  const int j = column + matrix / 2 * 8, l = depth + matrix % 2 * 8, own = lane % 8;
  load_matrices<!kLast>(to, kLast ? &tile.values[j + own][l] : &tile.values[l + own][j]);
}

/// Sums of a warp's quarter: [2 × 16 rows, 4 × 8 columns].
struct QuarterSums {
  float d[2][4][4] = {};
};

template <class T, bool kLastA, bool kLastB>
__device__ void multiply_tiles(QuarterSums& sums, const SharedTile<kLastA>& a,
                               const SharedTile<kLastB>& b, int row, int column) {
#pragma unroll
  for (int depth = 0; depth < kGroupedDepth; depth += 16) {
    uint32_t of_a[2][4], of_b[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      load_a(of_a[half], a, row + 16 * half, depth);
      load_b(of_b[half], b, column + 16 * half, depth);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t pair[2] = {of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1]};
        mma_16x8x16<T>(sums.d[i][j], of_a[i], pair);
      }
    }
  }
}

/// Where the quarter of a warp begins in the tile.
__device__ inline int quarter_row() {
  return static_cast<int>(threadIdx.x) / kWarpLanes / 2 * 32;
}
__device__ inline int quarter_column() {
  return static_cast<int>(threadIdx.x) / kWarpLanes % 2 * 32;
}

/// Calls f(row, column, i, j, e) for each sum d[i][j][e] of the thread: its place in the tile.
template <class F>
__device__ void for_quarter(int row, int column, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        f(row + 16 * i + lane / 4 + e / 2 * 8, column + 8 * j + lane % 4 * 2 + e % 2, i, j, e);
    }
  }
}

}  // namespace viaduct::cuda
