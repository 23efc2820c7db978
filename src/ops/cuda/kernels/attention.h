#pragma once
// Attention over documents without a score matrix in memory (ops/attention.h): what the launches
// take, and the tiles that their blocks work on.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// Heads [T, N, D], dense inside; strides in elements.
struct Heads {
  void* data = nullptr;
  int64_t token = 0, head = 0;
};

/// Elements in FP8 (ops/attention.h): code · scale.
struct AttentionCodes {
  const float* scales = nullptr;       // [3]: of q, k and v, which are E4M3; null: no codes
  const float* d_out_scale = nullptr;  // [1], of the backward
  bool d_out_e5m2 = false;
};

/// Rows of a key-value head are its (query, query head) pairs: row r of a document is query
/// r / group and member r % group of the group of query heads that share the key-value head.
struct AttentionProblemView {
  Format format;  // of q, k, v and d_out, unless they are codes
  AttentionCodes codes;
  int documents;
  const int32_t *q_offsets, *kv_offsets, *diagonal;  // diagonal: null for 0
  int64_t queries, keys;                             // of all documents: Tq, Tk
  int kv_heads, group, width, value_width;
  Heads q, k, v;
  bool causal;
  int64_t window;
  float scale, softcap;
  bool wide;  // all rows of inputs may be read by 16 bytes

  bool dropout;
  uint64_t dropout_key;  // mixed
  uint32_t dropout_threshold;
  float dropout_factor;
  const int64_t* query_index;
  const int32_t* key_position;  // null: positions count from 0 in each document
  uint32_t first_head;

  float* lse;  // [N, Tq]
};

struct AttentionForwardView {
  AttentionProblemView problem;
  Heads out;
  Format out_format;
};
void attention_forward(const AttentionForwardView& args, Stream stream);

struct AttentionBackwardView {
  AttentionProblemView problem;
  Heads d_out;
  const float* delta;   // [N, Tq]
  float *dq, *dk, *dv;  // contiguous; +=
};
/// dk and dv: a block has some keys, and loops over the rows that see them.
void attention_backward_keys(const AttentionBackwardView& args, Stream stream);
/// dq: a block has some rows, and loops over the keys that they see.
void attention_backward_queries(const AttentionBackwardView& args, Stream stream);

/// The widths of heads that kernels exist for: of q and k, and of v. Narrower heads run in the
/// first that holds them.
struct HeadWidths {
  int width, value_width;
  /// The number of parts of their columns in which the gradients of keys and values are computed,
  /// each of which computes the scores: two where one warp's sums would not fit into its registers.
  int parts;
};
inline constexpr HeadWidths kHeadWidths[] = {
    {64, 64, 1}, {128, 128, 1}, {192, 128, 1}, {256, 256, 2}};

/// Shared memory of a block that all GPUs with kernels have: that of sm_89 and sm_120.
inline constexpr int kLeastBlockMemory = 99 * 1024;
/// Heads of q and k in the widest kernels whose blocks have as little.
inline constexpr int kSmallForward = 192;
inline constexpr int small_backward(bool fp32) {
  return fp32 ? 64 : 192;
}

/// Null if no kernel supports such heads.
inline constexpr const HeadWidths* head_widths_for(int64_t width, int64_t value_width) {
  for (const HeadWidths& has : kHeadWidths)
    if (width <= has.width && value_width <= has.value_width) return &has;
  return nullptr;
}

}  // namespace viaduct::cuda
