// Products of a score matrix in FP32: a block makes 64 rows of a head of a document, 64 columns at
// a time, from tiles of 16 terms in shared memory. A thread has 4 × 4 sums, each in the order of
// the terms.

#include "ops/cuda/kernels/attention_block.cuh"
#include "ops/cuda/kernels/score_matrix.h"

namespace viaduct::cuda {
namespace {

constexpr int kSide = 64, kTerms = 16, kThreads = 256, kOwn = 4;

struct Tiles {
  float left[kTerms][kSide + 1], right[kTerms][kSide + 1];
};

__device__ float element(const Heads& heads, Format format, int64_t token, int64_t head,
                         int64_t at) {
  float value[1];
  load(heads.data, format, token * heads.token + head * heads.head + at, value);
  return value[0];
}

/// Calls write(row, column, sum) for rows [0, rows) and columns of Σ left(row, k) · right(k,
/// column).
template <class Left, class Right, class Write>
__device__ void multiply_block(Tiles& tiles, int rows, int columns, int terms, const Left& left,
                               const Right& right, const Write& write) {
  const int t = static_cast<int>(threadIdx.x), first_row = t / 16, first_column = t % 16;
  for (int begin = 0; begin < columns; begin += kSide) {
    float sums[kOwn][kOwn] = {};
    for (int k0 = 0; k0 < terms; k0 += kTerms) {
      for (int i = t; i < kSide * kTerms; i += kThreads) {
        const int k = i % kTerms, at = i / kTerms;
        const bool there = k0 + k < terms;
        tiles.left[k][at] = there && at < rows ? left(at, k0 + k) : 0.0f;
        tiles.right[k][at] = there && begin + at < columns ? right(k0 + k, begin + at) : 0.0f;
      }
      __syncthreads();
      for (int k = 0; k < kTerms; ++k)
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
#pragma unroll
          for (int j = 0; j < kOwn; ++j)
            sums[i][j] = fmaf(tiles.left[k][first_row + 16 * i],
                              tiles.right[k][first_column + 16 * j], sums[i][j]);
      __syncthreads();  // before the next terms are written
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int row = first_row + 16 * i, column = begin + first_column + 16 * j;
        if (row < rows && column < columns) write(row, column, sums[i][j]);
      }
  }
}

__global__ void __launch_bounds__(kThreads, 3) score_product_kernel(ScoreProductView args) {
  auto& tiles = shared<Tiles>();
  const AttentionProblemView& p = args.problem;
  const bool by_keys = args.form == ScoreForm::keys;
  AttentionBlock block;
  if (!find_block(p, by_keys ? p.kv_offsets : p.q_offsets, 1, kSide, static_cast<int>(blockIdx.x),
                  block))
    return;
  const int64_t head = blockIdx.y, key_head = by_keys ? head : head / p.group;
  const auto rows =
      static_cast<int>(smaller(kSide, (by_keys ? block.keys : block.queries) - block.begin));
  const auto place = [&](int64_t n, int query, int key) {
    return (n * p.queries + block.first_query + query) * args.row + key;
  };
  const auto matrix = [&](int64_t n, int query, int key) {
    float value[1];
    load(args.matrix, args.matrix_format, place(n, query, key), value);
    return value[0];
  };
  const auto key_element = [&](int key, int at) {
    return element(args.keys, args.key_format, block.first_key + key, key_head, at);
  };
  const auto query_element = [&](int64_t n, int query, int at) {
    return element(args.queries, args.query_format, block.first_query + query, n, at);
  };
  if (args.form == ScoreForm::scores) {
    multiply_block(
        tiles, rows, block.keys, args.width,
        [&](int row, int k) { return query_element(head, block.begin + row, k); },
        [&](int k, int column) { return key_element(column, k); },
        [&](int row, int column, float sum) {
          static_cast<float*>(args.matrix)[place(head, block.begin + row, column)] = sum;
        });
  } else if (args.form == ScoreForm::values) {
    multiply_block(
        tiles, rows, args.width, block.keys,
        [&](int row, int k) { return matrix(head, block.begin + row, k); }, key_element,
        [&](int row, int column, float sum) {
          const int64_t at = (block.first_query + block.begin + row) * args.queries.token +
                             head * args.queries.head + column;
          float value[1] = {sum};
          if (args.accumulate) value[0] += query_element(head, block.begin + row, column);
          store(args.queries.data, args.query_format, at, value);
        });
  } else {
    // Terms are the queries of all heads that share the key, head by head.
    multiply_block(
        tiles, rows, args.width, p.group * block.queries,
        [&](int row, int k) {
          return matrix(head * p.group + k / block.queries, k % block.queries, block.begin + row);
        },
        [&](int k, int column) {
          return query_element(head * p.group + k / block.queries, k % block.queries, column);
        },
        [&](int row, int column, float sum) {
          auto* to = static_cast<float*>(args.keys.data) +
                     (block.first_key + block.begin + row) * args.keys.token +
                     head * args.keys.head + column;
          *to += sum;
        });
  }
}

}  // namespace

void score_product(const ScoreProductView& args, Stream stream) {
  const AttentionProblemView& p = args.problem;
  const bool by_keys = args.form == ScoreForm::keys;
  const int64_t blocks = block_bound(by_keys ? p.keys : p.queries, 1, kSide, p.documents);
  launch("score_product", score_product_kernel,
         Grid(blocks, int64_t{p.kv_heads} * (by_keys ? 1 : p.group)), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(score_product)

}  // namespace viaduct::cuda
