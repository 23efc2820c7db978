#pragma once
// Types of the attention kernels of an instruction set.
//
// The *rows* of a key-value head are the (query, query head) pairs that share it, query by query:
// the G = N / K heads of a query are neighbours, so grouped heads share every loaded key. Scores
// are kept transposed, keys down and rows across the vector lanes: maxima and sums of a softmax are
// then plain vector operations, and keys and values are read as scalars, without packing.

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

inline constexpr int64_t kAttentionRows = 64;  // rows of a block
inline constexpr int64_t kAttentionKeys = 64;  // keys of a block

/// One (document, key-value head): pointers at its first query, first key and the first query head
/// of the group; strides in elements.
struct AttentionHead {
  DType dtype = DType::f32;
  int64_t queries = 0, keys = 0, group = 1;
  int64_t width = 0, value_width = 0;  // D, Dv
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t q_token = 0, q_head = 0, k_token = 0, v_token = 0;
  bool causal = true;
  int64_t window = 0, diagonal = 0;
  float scale = 1, softcap = 0;
  // A probability is kept iff the upper 23 bits of its random word are ≥ the threshold.
  bool dropout = false;
  int32_t dropout_threshold = 0;
  float dropout_factor = 1;  // factor of kept probabilities
  uint64_t dropout_key = 0;
  const int64_t* query_index = nullptr;   // at the first query
  const int32_t* key_position = nullptr;  // at the first key; null: counted from that key
  int64_t first_head = 0;                 // global number of the group's first query head
  // Bias of the scores, of a group of one: of the distances −bias_reach … bias_reach of key and
  // query (attention_bias.h). In the backward also its gradient, +=; null: none.
  const float* bias = nullptr;
  double* d_bias = nullptr;
  int64_t bias_reach = 0;

  // Outputs of the forward, inputs of the backward. lse and delta: [head of the group][query].
  void* out = nullptr;
  const void* d_out = nullptr;
  int64_t out_token = 0, out_head = 0;
  float* lse = nullptr;
  const float* delta = nullptr;
  int64_t lse_head = 0;

  // Gradients, added to (+=).
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
  int64_t dq_token = 0, dq_head = 0, dk_token = 0, dv_token = 0;

  // Where q, k and v are codes of e4m3 (`dtype`); `scale` has those of q and k. In d_probabilities
  // are codes of d_out times codes of v times `d_scale`; gradients of scores are codes of e5m2 in
  // units of `gradient_unit`; sums of codes are out, dq, dk and dv times these factors.
  // Probabilities are codes of e4m3 times `probability_steps`.
  DType out_dtype = DType::f32;  // of out, or of d_out
  float probability_steps = 1;
  float d_scale = 1, gradient_unit = 1, out_factor = 1, dq_factor = 1, dk_factor = 1, dv_factor = 1;

  int64_t rows() const { return queries * group; }
};

/// Rows of q, d_out, out as (token, head): delta and merge.
struct AttentionRows {
  DType dtype = DType::f32, other_dtype = DType::f32;
  int64_t tokens = 0, heads = 0, width = 0;
  void* out = nullptr;
  const void* other = nullptr;  // d_out, or the other part's output
  int64_t out_token = 0, out_head = 0, other_token = 0, other_head = 0;
  float* per_query = nullptr;  // [N, Tq]: delta, or the merged lse
  float factor = 1;            // of delta: the scales of codes
  const float* other_lse = nullptr;
};

struct AttentionKernels {
  /// Rows [row, row + kAttentionRows) of a head.
  void (*forward)(const AttentionHead& head, int64_t row, float* scratch);
  /// The rows of a head with one query, kOneQueryHeads at most (attention_one_query.h), without
  /// dropout: the bits of `forward`.
  void (*one_query)(const AttentionHead& head, float* scratch);
  /// All rows against the keys [begin, end).
  void (*backward)(const AttentionHead& head, int64_t begin, int64_t end, float* scratch);
  void (*delta)(const AttentionRows& rows, int64_t begin_token, int64_t end_token);
  void (*merge)(const AttentionRows& rows, int64_t begin_token, int64_t end_token);
};

/// Floats of scratch that `forward` (and `one_query`) and `backward` need.
inline int64_t attention_forward_scratch(int64_t width, int64_t value_width) {
  return kAttentionRows * (width + value_width) + kAttentionKeys * (width + value_width) +
         kAttentionKeys * kAttentionRows + 8 * kAttentionRows + width + value_width;
}
inline int64_t attention_backward_scratch(int64_t width, int64_t value_width) {
  return kAttentionRows * (3 * width + 2 * value_width) + kAttentionKeys * (width + value_width) +
         3 * kAttentionKeys * kAttentionRows + 8 * kAttentionRows;
}

/// Fills the entries of delta and merge.
void add_attention_rows(OpTable& table, CpuIsa isa);

VIADUCT_KERNELS(AttentionKernels, attention_kernels)

}  // namespace viaduct::cpu
