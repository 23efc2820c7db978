#pragma once
// The rows of a score matrix, and the threads that share one.

#include "ops/cuda/kernels/attention_block.cuh"
#include "ops/cuda/kernels/row_group.cuh"

namespace viaduct::cuda {

/// A row of the matrix: a query of a head and the keys of its document.
struct ScoreRow {
  AttentionBlock block;
  int64_t head, query, at;  // query: of all documents; at: of [N, Tq]
  int keys, first, end;     // of which [first, end) are seen
};

/// False beyond the last row.
__device__ inline bool find_row(const AttentionProblemView& p, int64_t number, ScoreRow& row) {
  if (number >= int64_t{p.kv_heads} * p.group * p.queries) return false;
  row.head = number / p.queries, row.query = number % p.queries, row.at = number;
  int low = 0, high = p.documents;  // offsets[low] ≤ query < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (p.q_offsets[middle] <= row.query ? low : high) = middle;
  }
  AttentionBlock& block = row.block;
  block.first_query = p.q_offsets[low], block.first_key = p.kv_offsets[low];
  block.queries = p.q_offsets[low + 1] - p.q_offsets[low];
  block.keys = p.kv_offsets[low + 1] - p.kv_offsets[low];
  block.diagonal = p.diagonal != nullptr ? p.diagonal[low] : 0;
  row.keys = block.keys;
  row.first = block.first_seen(p, row.query - block.first_query);
  row.end = block.end_seen(p, row.query - block.first_query);
  return true;
}

__device__ inline float matrix_element(const void* matrix, Format format, int64_t at) {
  float value[1];
  load(matrix, format, at, value);
  return value[0];
}

template <class Group, class F>
__device__ void for_keys(const ScoreRow& row, F&& f) {
  for (int j = Group::thread(); j < row.keys; j += Group::kThreadsOfRow) f(j);
}

/// Calls f(Count<threads of a row>, grid).
template <class F>
void for_matrix(const AttentionProblemView& p, int64_t width, F&& f) {
  const int64_t rows = int64_t{p.kv_heads} * p.group * p.queries;
  if (width <= kWarpRow) {
    f(Count<kWarpLanes>{}, Grid(blocks_for(rows, kRowThreads / kWarpLanes)));
  } else {
    f(Count<kRowThreads>{}, Grid(rows));
  }
}

}  // namespace viaduct::cuda
