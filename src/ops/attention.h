#pragma once
// Scaled dot-product attention over documents, flash-style: no [S, S] matrix, memory linear in the
// tokens (Dao et al. 2022; softmax merge by log-sum-exp as in Milakov and Gimelshein 2018).
//
// Tokens of several documents are stored one after the other. Document d has queries [q_offsets[d],
// q_offsets[d+1]) and keys [kv_offsets[d], kv_offsets[d+1]); attention never crosses documents.
// Query i and key j (counted inside their document's runs) see each other iff, with e = diagonal[d]
// (0 if the tensor is absent):
//     causal: j ≤ i + e        and, if window > 0:  j > i + e − window
// e is what context parallelism and cached generation need: with all keys before the queries
// present, e = keys − queries.
//   s[i, j] = scale · q_i · k_j;  if softcap > 0: s = softcap · tanh(s / softcap)
//   with a bias: s[i, j] += bias[bucket(j − i − e), n]
//   p = softmax over the visible j;  o_i = Σ_j drop(p[i, j]) v_j;  lse_i = log Σ_j exp(s[i, j])
// A query without visible keys has o = 0 and lse = −inf, and no gradient. N query heads share K
// key-value heads: query head n uses key-value head n / (N / K). Head dims of q/k (D) and v (Dv)
// may differ. Dropout multiplies p by 0 or 1 / (1 − p_drop); the bits come from Philox(key; counter
// low = global token index of the query, high = head << 32 | key position inside the document),
// which is j, or key_position[j] where the run is a piece of the document.
//
// Precision: scores, softmax and sums are FP32 (FP64 for f64). Where matrix units make the products
// (the cpu's of BF16 tiles; a GPU's of BF16 and FP16), probabilities and score gradients enter
// those with v, d_out, k and q rounded to that format: an element of out, dq, dk, dv may be off by
// another half unit of it, 2^-8 or 2^-11, times the sum of its terms' magnitudes; FP16 gradients
// below 2^-14 lose bits. Sums over keys that give lse are not rounded.
//
// q [Tq, N, D], k [Tk, K, D], v [Tk, K, Dv], out [Tq, N, Dv]: outer dims strided, dense inside, one
// floating dtype. lse, delta: f32 [N, Tq] (f64 for f64), contiguous.
//
// FP8: q, k and v may be codes of e4m3, whose elements are code · scale with the scales of
// AttentionProblem; out is then f32, bf16 or f16, and d_out codes of e4m3 or e5m2. Products are
// computed from the codes with FP32 sums; scales, and dropout's factor, multiply the sums. Besides
// q, k, v and d_out two operands of products are rounded (ops/attention_fp8.h):
//   forward   e4m3(2^8 · e^s / 2^n) with 2^n the smallest power of two that is at least e^s of the
//             visible keys so far: the order of keys does not matter, except for codes below E4M3's
//             normal range. The sum that divides, and gives lse, is that of the codes.
//   backward  e4m3(2^8 · p) in dv, and e5m2(ds / u) in dq and dk with a power of two u that bounds
//             their magnitude. delta is computed from the codes of d_out.

#include "base/philox.h"
#include "ops/dispatch.h"
#include "ops/relative_buckets.h"

namespace viaduct {

/// Arguments common to forward and backward.
struct AttentionProblem {
  Tensor q_offsets, kv_offsets;  // i32 [documents + 1], ascending, from 0 to Tq and Tk
  Tensor diagonal;               // optional i32 [documents]
  bool causal = true;
  int64_t window = 0;  // 0: unlimited
  double scale = 1;
  double softcap = 0;  // 0: none
  double dropout = 0;
  RandomKey dropout_key;
  int64_t first_head = 0;  // global number of query head 0, for dropout under tensor parallelism
  Tensor query_index;      // i64 [Tq]: global token indices; needed for dropout only
  Tensor key_position;     // optional i32 [Tk]: position of each key in its document, for dropout
  /// Longest run of queries and of keys of a document, an upper bound for `choose` (which reads no
  /// values).
  int64_t max_queries = 0, max_keys = 0;
  /// Visible (query, key) pairs of a head, for the cost; 0: estimated from the bounds.
  double visible_pairs = 0;
  Tensor scales;  // f32 [3]: of q, k and v where they are codes, and only then
  /// The vendor's library may compute the call (cuDNN on cuda), where it supports it and documents
  /// have equal lengths; the backend's own kernels compute the others. Same results within the
  /// tolerance of 16-bit products.
  bool library = false;
  /// [buckets, N], contiguous, floating (f64 for f64): a bias of the scores by relative position,
  /// of the buckets below. Where the backend's kernels add it (OpTable::biased_attention); without
  /// a soft cap and codes, and with a key-value head for each query head.
  Tensor bias = {};
  RelativeBuckets relative = {};
};

struct AttentionForwardArgs {
  AttentionProblem problem;
  Tensor q, k, v;
  Tensor out;  // =
  Tensor lse;  // =
};

void attention_forward(OpContext& context, const AttentionForwardArgs& args);

/// delta [N, Tq] = rowsum(d_out · out): the only use of the output in the backward. Either may be
/// codes of e4m3 or e5m2 with a scale f32 [1]; delta is then f32.
struct AttentionDeltaArgs {
  Tensor out, d_out, delta;
  Tensor out_scale = {}, d_out_scale = {};  // where these are codes, and only then
};

void attention_delta(OpContext& context, const AttentionDeltaArgs& args);

/// dq, dk, dv (f32, f64 for f64; shapes of q, k, v; contiguous) are added to (+=). lse and delta
/// may be those of a merged output, so that each part of a ring (context parallelism) adds its
/// share.
struct AttentionBackwardArgs {
  AttentionProblem problem;
  Tensor q, k, v, d_out, lse, delta;
  Tensor dq, dk, dv;        // +=
  Tensor d_out_scale = {};  // f32 [1], where d_out is codes, and only then
  /// Optional [Tq, N, Dv], of d_out's dtype: the output that delta was computed from. Libraries
  /// compute delta themselves, so without it none is used.
  Tensor out = {};
  /// Optional f32 (f64) [buckets, N], contiguous, where the scores have a bias: += its gradient.
  Tensor d_bias = {};
};

void attention_backward(OpContext& context, const AttentionBackwardArgs& args);

/// Merges attention over two disjoint sets of keys into (out, lse): out = (out · e^lse + other_out
/// · e^other_lse) / sum. `out` may be f32 if other_out has a 16-bit format, so that a sum over many
/// parts is not rounded at each.
struct AttentionMergeArgs {
  Tensor out, lse;              // in and out
  Tensor other_out, other_lse;  // in
};

void attention_merge(OpContext& context, const AttentionMergeArgs& args);

}  // namespace viaduct
