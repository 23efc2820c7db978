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

/// The same for all threads of a block.
__device__ inline GroupedPlace grouped_place(const GroupedShape& args) {
  const bool gradient = args.form == GroupedForm::weight_gradient;
  const bool forward = args.form == GroupedForm::forward;
  GroupedPlace tile{};
  tile.width = forward ? args.n : args.k;
  const int64_t across = (tile.width + kGroupedTile - 1) / kGroupedTile;
  int64_t down = blockIdx.x / across;
  tile.column = blockIdx.x % across * kGroupedTile;
  if (gradient) {
    const int64_t tiles = (args.n + kGroupedTile - 1) / kGroupedTile;
    const int64_t expert = down / tiles;
    const int64_t begin = min(int64_t{args.offsets[expert]}, args.rows);
    const int64_t end = min(int64_t{args.offsets[expert + 1]}, args.rows);
    tile.row = down % tiles * kGroupedTile;
    tile.height = args.n, tile.depth = end - begin;
    tile.expert = expert, tile.begin = begin;
    tile.c_at = expert * args.n * args.c_stride;
    tile.there = true;
    return tile;
  }
  for (int64_t expert = 0; expert < args.experts; ++expert) {
    const int64_t begin = min(int64_t{args.offsets[expert]}, args.rows);
    const int64_t end = min(int64_t{args.offsets[expert + 1]}, args.rows);
    const int64_t tiles = (end - begin + kGroupedTile - 1) / kGroupedTile;
    if (down >= tiles) {
      down -= tiles;
      continue;
    }
    tile.row = down * kGroupedTile;
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

template <class T>
__device__ GroupedTile<T> grouped_tile(const GroupedProduct& args) {
  const GroupedPlace place = grouped_place(args);
  if (!place.there) return {place};
  const bool gradient = args.form == GroupedForm::weight_gradient;
  const int64_t first_of_b = gradient ? place.begin : place.expert * args.n;
  return {place, static_cast<const T*>(args.a) + place.begin * args.a_stride,
          static_cast<const T*>(args.b) + first_of_b * args.b_stride};
}

/// c (= or +=) one element of the product, if it is there.
__device__ inline void store_sum(const GroupedShape& args, const GroupedPlace& tile, int64_t row,
                                 int64_t column, float sum) {
  if (row >= tile.height || column >= tile.width) return;
  const int64_t at = tile.c_at + row * args.c_stride + column;
  float value[1] = {sum};
  if (args.accumulate) {
    float before[1];
    load(args.c, args.c_format, at, before);
    value[0] = before[0] + sum;
  }
  store(args.c, args.c_format, at, value);
}

}  // namespace viaduct::cuda
