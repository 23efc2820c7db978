#pragma once
// A tile of an operand in shared memory as matrix units of sm_90a read it (warpgroup.cuh): rows of
// 128 bytes, in each of which the 16-byte runs change places with the row (the 128-byte swizzle),
// so that eight rows, or eight runs of one, are in different banks.
//
//   contracted dim last   row r is row r of the tile, 128 bytes of the contracted dim
//   else (16 bits)        row 64p + l is depth l of the kept elements [64p, 64p + 64)

#include "ops/cuda/kernels/async_copy.cuh"
#include "ops/cuda/kernels/warpgroup.cuh"

namespace viaduct::cuda {

/// Bytes of a row, and of what is copied at once.
inline constexpr int kSwizzledRow = 128, kSwizzledRun = 16;

/// [kSide, 128 bytes of the contracted dim].
template <class T, bool kLast, int kSide>
struct alignas(1024) SwizzledTile {
  static constexpr int kDepth = kSwizzledRow / static_cast<int>(sizeof(T));
  static constexpr int kRun = kSwizzledRun / static_cast<int>(sizeof(T)), kRuns = kSwizzledRow / 16;
  char bytes[kSide * kSwizzledRow];

  __device__ char* run(int row, int run) {
    return bytes + row * kSwizzledRow + (run ^ row % 8) * kSwizzledRun;
  }
  /// Of the rows or elements from `kept` on, a multiple of 64, and 32 bytes of the contracted dim
  /// from element `depth` on.
  __device__ WarpgroupOperand<T, kLast> operand(int kept, int depth) const {
    const int row = kLast ? kept : kept + depth;
    const char* const start =
        bytes + row * kSwizzledRow + (kLast ? depth * static_cast<int>(sizeof(T)) : 0);
    return {tile_descriptor(start, 64 * kSwizzledRow, 8 * kSwizzledRow)};
  }
};

/// Begins the copies of a tile by `kThreads` threads: kept elements [kept, kept + kSide) of `most`,
/// depths from `depth` on of `deep`; zeros beyond. Runs of 16 bytes are whole and aligned. Of the
/// operand, element (i, l) is at i · stride + l if the contracted dim is last, else l · stride + i.
template <int kThreads, class T, bool kLast, int kSide>
__device__ void copy_tile(SwizzledTile<T, kLast, kSide>& to, const T* from, int64_t stride,
                          int64_t kept, int64_t most, int64_t depth, int64_t deep) {
  using Tile = SwizzledTile<T, kLast, kSide>;
  static_assert(kSide * Tile::kRuns % kThreads == 0);
#pragma unroll
  for (int each = 0; each < kSide * Tile::kRuns / kThreads; ++each) {
    const int at = each * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / Tile::kRuns, run = at % Tile::kRuns;
    const int64_t i = kept + (kLast ? row : row / 64 * 64 + run * Tile::kRun);
    const int64_t l = depth + (kLast ? run * Tile::kRun : row % 64);
    const bool there = i < most && l < deep;
    begin_copy(to.run(row, run), there ? from + (kLast ? i * stride + l : l * stride + i) : from,
               there);
  }
}

}  // namespace viaduct::cuda
