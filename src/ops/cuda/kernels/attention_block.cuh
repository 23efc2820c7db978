#pragma once
// Where a block of an attention kernel is: its document, its rows or keys, which keys a query sees,
// and dropout's factors.

#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/kernels/kernel.h"
#include "ops/cuda/kernels/philox.cuh"

namespace viaduct::cuda {

__device__ inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
__device__ inline int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/// The document of a block, and where in it the block's rows or keys begin.
struct AttentionBlock {
  int queries = 0, keys = 0;               // of the document
  int64_t first_query = 0, first_key = 0;  // its first tokens
  int64_t diagonal = 0;
  int begin = 0;

  /// Query i sees keys [first_seen(i), end_seen(i)).
  __device__ int first_seen(const AttentionProblemView& p, int64_t i) const {
    if (p.window == 0) return 0;
    return static_cast<int>(smaller(keys, larger(0, i + diagonal - p.window + 1)));
  }
  __device__ int end_seen(const AttentionProblemView& p, int64_t i) const {
    if (!p.causal) return keys;
    return static_cast<int>(larger(0, smaller(keys, i + diagonal + 1)));
  }
  /// Keys [begin, end) are seen by queries of [first_seeing(begin), end_seeing(end)) alone.
  __device__ int first_seeing(const AttentionProblemView& p, int64_t key) const {
    if (!p.causal) return 0;
    return static_cast<int>(smaller(queries, larger(0, key - diagonal)));
  }
  __device__ int end_seeing(const AttentionProblemView& p, int64_t end) const {
    if (p.window == 0) return queries;
    return static_cast<int>(larger(0, smaller(queries, end - 1 - diagonal + p.window)));
  }
};

/// Finds block `index` of those that all documents are cut into, each into blocks of `size` of its
/// tokens · `per_token`. Called by whole warps; false beyond the last block.
__device__ inline bool find_block(const AttentionProblemView& p, const int32_t* offsets,
                                  int per_token, int size, int index, AttentionBlock& block) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  int before = 0;
  for (int first = 0; first < p.documents; first += kWarpLanes) {
    const int d = first + lane;
    const int count =
        d < p.documents ? ((offsets[d + 1] - offsets[d]) * per_token + size - 1) / size : 0;
    int through = count;  // blocks of documents up to this one
#pragma unroll
    for (int step = 1; step < kWarpLanes; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, through, step);
      if (lane >= step) through += other;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, before + through > index);
    if (beyond != 0) {
      const int source = __popc((beyond & (0u - beyond)) - 1);
      const int own = first + source;
      block.begin = (index - before - __shfl_sync(kAllLanes, through - count, source)) * size;
      block.first_query = p.q_offsets[own], block.first_key = p.kv_offsets[own];
      block.queries = p.q_offsets[own + 1] - p.q_offsets[own];
      block.keys = p.kv_offsets[own + 1] - p.kv_offsets[own];
      block.diagonal = p.diagonal != nullptr ? p.diagonal[own] : 0;
      return true;
    }
    before += __shfl_sync(kAllLanes, through, kWarpLanes - 1);
  }
  return false;
}

/// At least as many blocks as `find_block` finds.
inline int64_t block_bound(int64_t tokens, int64_t per_token, int64_t size, int64_t documents) {
  const int64_t all = tokens * per_token;
  return documents == 1 ? blocks_for(all, size) : all / size + documents;
}

/// The random numbers of a row.
struct RowDraw {
  uint64_t token = 0;
  uint32_t head = 0;
};
__device__ inline RowDraw draw_of_row(const AttentionProblemView& p, const AttentionBlock& block,
                                      int kv_head, int row) {
  return {static_cast<uint64_t>(p.query_index[block.first_query + row / p.group]),
          p.first_head + static_cast<uint32_t>(kv_head * p.group + row % p.group)};
}
/// 0 or 1 / (1 − p) for the row and a key.
__device__ inline float factor_of(const AttentionProblemView& p, const AttentionBlock& block,
                                  const RowDraw& row, int key) {
  // Beyond the last key, where nothing is used, any position does.
  const auto position = static_cast<uint32_t>(
      p.key_position != nullptr && key < block.keys ? p.key_position[block.first_key + key] : key);
  const uint32_t word = philox(p.dropout_key, row.token, uint64_t{row.head} << 32 | position).w0;
  return word >> 9 >= p.dropout_threshold ? p.dropout_factor : 0.0f;
}

inline constexpr float kLog2E = 1.4426950408889634f;

}  // namespace viaduct::cuda
