// Products of a score matrix by matrix units: queries and keys in 16 bits, sums in FP32. A block of
// four warps has 64 rows of the result, a warp 16 of them with all columns, and loops over tiles of
// the other operand, which are copied while the ones before are multiplied. Factors of the matrix
// (M: float, or T) are read once, straight to the registers in which mma.sync wants them, and
// rounded there: what the lanes of a warp read together are whole sectors of 32 bytes, or the two
// halves of one, one after the other.

#include "ops/cuda/kernels/attention_tile.cuh"
#include "ops/cuda/kernels/score_matrix.h"

namespace viaduct::cuda {
namespace {

template <class T, int kD>
struct OtherTiles {
  Tile<T, TileShape<T, kD>::kOther, kD> tiles[2];
};
template <class T, int kD>
struct ScoresMemory {
  Tile<T, TileShape<T, kD>::kOwn, kD> queries;
  OtherTiles<T, kD> keys;
};

/// Rows of one head, counted from a document's first query.
template <int kThreads, class T, int kRows, int kWidth>
__device__ void fill_queries(Tile<T, kRows, kWidth>& tile, const ScoreProductView& args,
                             const AttentionBlock& block, int head, int first) {
  const auto* data = static_cast<const T*>(args.queries.data);
  fill_tile<kThreads>(tile, args.width, args.problem.wide, data, [&](int r) -> const T* {
    if (first + r >= block.queries) return nullptr;
    return data + (block.first_query + first + r) * args.queries.token + head * args.queries.head;
  });
}

/// Calls use(index, tile) for tiles [0, count) that fill(tile, index) copies, each while the one
/// before is used. `before(index)` runs while the tile is on its way.
template <class Tiles, class Fill, class Before, class Use>
__device__ void for_tiles(Tiles& memory, int count, const Fill& fill, const Before& before,
                          const Use& use) {
  const auto begin = [&](int index) {
    if (index < count) fill(memory.tiles[index % 2], index);
    commit_copies();
  };
  begin(0);
  for (int index = 0; index < count; ++index) {
    before(index);
    wait_for_copies<0>();
    __syncthreads();  // this tile has arrived, and no thread reads the other one any more
    begin(index + 1);
    use(index, memory.tiles[index % 2]);
  }
  wait_for_copies<0>();
}

/// Where the keys of a query begin in a matrix of M.
template <class M>
__device__ M* matrix_row(const ScoreProductView& args, const AttentionBlock& block, int64_t head,
                         int query) {
  return static_cast<M*>(args.matrix) +
         (head * args.problem.queries + block.first_query + query) * args.row;
}

/// Calls f(half, row) for this lane's two rows of the warp's 16 that are below `end`.
template <class F>
__device__ void for_own_rows(int first, int end, F&& f) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + row_of(2 * half);
    if (row < end) f(half, row);
  }
}

template <class T, int kD>
__global__ void __launch_bounds__(TileShape<T, kD>::kThreads) scores_kernel(ScoreProductView args) {
  using Shape = TileShape<T, kD>;
  constexpr int kThreads = Shape::kThreads, kKeys = Shape::kOther;
  static_assert(sizeof(ScoresMemory<T, kD>) <= kLeastBlockMemory);
  const AttentionProblemView& p = args.problem;
  auto& memory = *dynamic_shared<ScoresMemory<T, kD>>();
  AttentionBlock block;
  if (!find_block(p, p.q_offsets, 1, Shape::kOwn, static_cast<int>(blockIdx.x), block)) return;
  const auto head = static_cast<int>(blockIdx.y);
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpLanes * 16;
  fill_queries<kThreads>(memory.queries, args, block, head, block.begin);
  for_tiles(
      memory.keys, (block.keys + kKeys - 1) / kKeys,
      [&](auto& tile, int index) {
        fill_keys<T, kThreads>(tile, p, block, args.keys, args.width, head / p.group,
                               index * kKeys);
      },
      [](int) {},
      [&](int index, const auto& tile) {
        Part<kKeys> sums;
        multiply(sums, memory.queries, warp_row, tile, args.width);
        for_own_rows(block.begin + warp_row, block.queries, [&](int half, int row) {
          float* const to = matrix_row<float>(args, block, head, row);
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
            const int column = index * kKeys + column_of(n, 0);
            const float pair[2] = {sums[n][2 * half], sums[n][2 * half + 1]};
            if (args.pairs && column + 1 < block.keys) {
              store_run(to + column, pair);
            } else {
              if (column < block.keys) to[column] = pair[0];
              if (column + 1 < block.keys) to[column + 1] = pair[1];
            }
          }
        });
      });
}

template <class T, class M, int kD>
__global__ void __launch_bounds__(TileShape<T, kD>::kThreads) values_kernel(ScoreProductView args) {
  using Shape = TileShape<T, kD>;
  constexpr int kThreads = Shape::kThreads, kKeys = Shape::kOther;
  const AttentionProblemView& p = args.problem;
  auto& memory = *dynamic_shared<OtherTiles<T, kD>>();
  AttentionBlock block;
  if (!find_block(p, p.q_offsets, 1, Shape::kOwn, static_cast<int>(blockIdx.x), block)) return;
  const auto head = static_cast<int>(blockIdx.y);
  const int first_row = block.begin + static_cast<int>(threadIdx.x) / kWarpLanes * 16;
  Exchange<T, Shape::kWarps, kKeys> exchange;
  Part<kD> sums = {};
  Part<kKeys> left;
  for_tiles(
      memory, (block.keys + kKeys - 1) / kKeys,
      [&](auto& tile, int index) {
        fill_keys<T, kThreads>(tile, p, block, args.keys, args.width, head / p.group,
                               index * kKeys);
      },
      [&](int index) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) left[n][i] = 0;
        for_own_rows(first_row, block.queries, [&](int half, int row) {
          const M* const from = matrix_row<M>(args, block, head, row);
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
            const int column = index * kKeys + column_of(n, 0);
            float pair[2] = {};
            if (args.pairs && column + 1 < block.keys) {
              load_run(from + column, pair);
            } else {
              if (column < block.keys) pair[0] = widened(from[column]);
              if (column + 1 < block.keys) pair[1] = widened(from[column + 1]);
            }
            left[n][2 * half] = pair[0], left[n][2 * half + 1] = pair[1];
          }
        });
      },
      [&](int, const auto& tile) {
        add_product<T, kD>(sums, left, tile, 0, args.width, exchange);
      });
  for_own_rows(first_row, block.queries, [&](int half, int row) {
    const int64_t at = (block.first_query + row) * args.queries.token + head * args.queries.head;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = column_of(n, i);
        if (column >= args.width) continue;
        float value[1] = {sums[n][2 * half + i]}, before[1] = {0};
        if (args.accumulate) load(args.queries.data, args.query_format, at + column, before);
        value[0] += before[0];
        store(args.queries.data, args.query_format, at + column, value);
      }
  });
}

template <class T, class M, int kD>
__global__ void __launch_bounds__(TileShape<T, kD>::kThreads) keys_kernel(ScoreProductView args) {
  using Shape = TileShape<T, kD>;
  constexpr int kThreads = Shape::kThreads, kQueries = Shape::kOther;
  const AttentionProblemView& p = args.problem;
  auto& memory = *dynamic_shared<OtherTiles<T, kD>>();
  AttentionBlock block;
  if (!find_block(p, p.kv_offsets, 1, Shape::kOwn, static_cast<int>(blockIdx.x), block)) return;
  const auto head = static_cast<int>(blockIdx.y);
  const int first_key = block.begin + static_cast<int>(threadIdx.x) / kWarpLanes * 16;
  // Terms are the queries of all heads that share the key, head by head.
  const int tiles_of_head = (block.queries + kQueries - 1) / kQueries;
  const auto head_of = [&](int index) { return head * p.group + index / tiles_of_head; };
  const auto first_of = [&](int index) { return index % tiles_of_head * kQueries; };
  Exchange<T, Shape::kWarps, kQueries> exchange;
  Part<kD> sums = {};
  Part<kQueries> left;
  for_tiles(
      memory, tiles_of_head * p.group,
      [&](auto& tile, int index) {
        fill_queries<kThreads>(tile, args, block, head_of(index), first_of(index));
      },
      [&](int index) {
#pragma unroll
        for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = first_key + row_of(i), query = first_of(index) + column_of(n, i);
            left[n][i] = key < block.keys && query < block.queries
                             ? widened(matrix_row<M>(args, block, head_of(index), query)[key])
                             : 0.0f;
          }
      },
      [&](int, const auto& tile) {
        add_product<T, kD>(sums, left, tile, 0, args.width, exchange);
      });
  for_own_rows(first_key, block.keys, [&](int half, int key) {
    float* const to = static_cast<float*>(args.keys.data) +
                      (block.first_key + key) * args.keys.token + head * args.keys.head;
    add_row<kD>(to, half, sums, 0, args.width, 1);
  });
}

template <class T, class M, int kD>
void launch_factors(const ScoreProductView& args, Grid grid, Stream stream) {
  const Block block(TileShape<T, kD>::kThreads, sizeof(OtherTiles<T, kD>));
  launch("score_product",
         args.form == ScoreForm::values ? values_kernel<T, M, kD> : keys_kernel<T, M, kD>, grid,
         block, stream, args);
}

template <class T, int kD>
void launch_form(const ScoreProductView& args, Stream stream) {
  using Shape = TileShape<T, kD>;
  const AttentionProblemView& p = args.problem;
  const bool by_keys = args.form == ScoreForm::keys;
  const Grid grid(block_bound(by_keys ? p.keys : p.queries, 1, Shape::kOwn, p.documents),
                  int64_t{p.kv_heads} * (by_keys ? 1 : p.group));
  if (args.form == ScoreForm::scores)
    return launch("score_product", scores_kernel<T, kD>, grid,
                  Block(Shape::kThreads, sizeof(ScoresMemory<T, kD>)), stream, args);
  args.matrix_format == Format::f32 ? launch_factors<T, float, kD>(args, grid, stream)
                                    : launch_factors<T, T, kD>(args, grid, stream);
}

template <class T>
void launch_width(const ScoreProductView& args, Stream stream) {
  if (args.width <= 64) return launch_form<T, 64>(args, stream);
  if (args.width <= 128) return launch_form<T, 128>(args, stream);
  launch_form<T, kWidestScores>(args, stream);
}

}  // namespace

void score_product_mma(const ScoreProductView& args, Stream stream) {
  const Format format = args.form == ScoreForm::keys ? args.query_format : args.key_format;
  format == Format::bf16 ? launch_width<Bf16>(args, stream) : launch_width<F16>(args, stream);
}

VIADUCT_KERNEL_FILE(score_product_mma)

}  // namespace viaduct::cuda
