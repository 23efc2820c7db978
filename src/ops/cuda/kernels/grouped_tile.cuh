#pragma once
// Which tile of which expert's product a block of `grouped_gemm` computes.

#include "ops/cuda/kernels/grouped_gemm.h"
#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

/// out [i, j] = Σ a(i, l) · b(j, l) over l < depth, for i < height, j < width: the product of an
/// expert, and where the block's tile of it begins.
struct GroupedPlace {
  int64_t expert;
  int64_t begin;  // the expert's first row
  int64_t c_at;   // element of c where the product begins
  int64_t height, width, depth;
  int64_t row, column;
  bool there;
};

/// For tiles of kDown × kAcross. The same for all threads of a block.
template <int64_t kDown = kGroupedTile, int64_t kAcross = kGroupedTile>
__device__ GroupedPlace grouped_place(const GroupedShape& args) {
  const bool gradient = args.form == GroupedForm::weight_gradient;
  const bool forward = args.form == GroupedForm::forward;
  GroupedPlace tile{};
  tile.width = forward ? args.n : args.k;
  const int64_t across = (tile.width + kAcross - 1) / kAcross;
  int64_t down = blockIdx.x / across;
  tile.column = blockIdx.x % across * kAcross;
  if (gradient) {
    const int64_t tiles = (args.n + kDown - 1) / kDown;
    const int64_t expert = down / tiles;
    const int64_t begin = min(int64_t{args.offsets[expert]}, args.rows);
    const int64_t end = min(int64_t{args.offsets[expert + 1]}, args.rows);
    tile.row = down % tiles * kDown;
    tile.height = args.n, tile.depth = end - begin;
    tile.expert = expert, tile.begin = begin;
    tile.c_at = expert * args.n * args.c_stride;
    tile.there = true;
    return tile;
  }
  for (int64_t expert = 0; expert < args.experts; ++expert) {
    const int64_t begin = min(int64_t{args.offsets[expert]}, args.rows);
    const int64_t end = min(int64_t{args.offsets[expert + 1]}, args.rows);
    const int64_t tiles = (end - begin + kDown - 1) / kDown;
    if (down >= tiles) {
      down -= tiles;
      continue;
    }
    tile.row = down * kDown;
    tile.height = end - begin, tile.depth = forward ? args.k : args.n;
    tile.expert = expert, tile.begin = begin;
    tile.c_at = begin * args.c_stride;
    tile.there = true;
    break;
  }
  return tile;
}

/// With the operands. Elements of a are at i · stride + l if the contracted dim is last in memory,
/// else at l · stride + i; the same for b.
template <class T>
struct GroupedTile : GroupedPlace {
  const T *a, *b;
};

template <class T, int64_t kDown = kGroupedTile, int64_t kAcross = kGroupedTile>
__device__ GroupedTile<T> grouped_tile(const GroupedProduct& args) {
  const GroupedPlace place = grouped_place<kDown, kAcross>(args);
  if (!place.there) return {place};
  const bool gradient = args.form == GroupedForm::weight_gradient;
  const int64_t first_of_b = gradient ? place.begin : place.expert * args.n;
  return {place, static_cast<const T*>(args.a) + place.begin * args.a_stride,
          static_cast<const T*>(args.b) + first_of_b * args.b_stride};
}

/// c (= or +=) N neighbours in a row of the product, if they are there; N divides its width.
template <int N>
__device__ void store_sums(const GroupedShape& args, const GroupedPlace& tile, int64_t row,
                           int64_t column, const float (&sums)[N]) {
  if (row >= tile.height || column >= tile.width) return;
  const int64_t at = tile.c_at + row * args.c_stride + column;
  float values[N] = {};
  if (args.accumulate) load(args.c, args.c_format, at, values);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = args.accumulate ? values[i] + sums[i] : sums[i];
  store(args.c, args.c_format, at, values);
}
__device__ inline void store_sum(const GroupedShape& args, const GroupedPlace& tile, int64_t row,
                                 int64_t column, float sum) {
  const float one[1] = {sum};
  store_sums(args, tile, row, column, one);
}

}  // namespace viaduct::cuda
