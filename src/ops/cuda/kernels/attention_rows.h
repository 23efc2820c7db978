#pragma once
// The row-wise parts of attention (ops/attention.h, ops/attention_sink.h, ops/heads.h). Row t · N +
// n of [T, N, D] is head n of token t; values per query are f32 [N, T].

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// Rows whose elements may be FP8: codes · *scale.
struct CodedRows {
  Rows rows;                     // strides in elements
  const float* scale = nullptr;  // null: no codes
  bool e5m2 = false;
};

/// delta = Σ out · d_out.
struct AttentionDeltaRows {
  CodedRows out, d_out;
  float* delta;
  int64_t tokens, heads, width;
};
void attention_delta(const AttentionDeltaRows& args, Stream stream);

struct AttentionMergeRows {
  Rows out, other;
  float* lse;
  const float* other_lse;
  int64_t tokens, heads, width;
};
void attention_merge(const AttentionMergeRows& args, Stream stream);

struct AttentionSinkRows {
  Rows out;
  float* lse;
  Vector sink;
  int64_t tokens, heads, width;
};
void attention_sink(const AttentionSinkRows& args, Stream stream);

struct AttentionSinkSums {
  const float *lse, *delta;
  Vector sink;
  float* d_sink;  // +=
  int64_t tokens, heads;
};
void attention_sink_backward(const AttentionSinkSums& args, Stream stream);

/// `each` [T, N, D], `shared` [T, D]: a copy to each head, or the sum over them.
struct SharedHeads {
  Rows each, shared;
  int64_t tokens, heads, width;
};
void repeat_heads(const SharedHeads& args, Stream stream);
void sum_heads(const SharedHeads& args, Stream stream);

}  // namespace viaduct::cuda
