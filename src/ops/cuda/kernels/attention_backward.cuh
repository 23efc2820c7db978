#pragma once
// What both kernels of attention's backward compute for a row and a key.

#include "ops/cuda/kernels/attention_tile.cuh"

namespace viaduct::cuda {

/// What a row brings. Rows without keys, and rows beyond the last, have lse = inf: e^−inf = 0.
struct BackwardRow {
  float lse, delta;
  int first, end;  // the keys that it sees
  RowDraw draw;
};

__device__ inline BackwardRow backward_row(const AttentionBackwardView& args,
                                           const AttentionBlock& block, int kv_head, int row) {
  const AttentionProblemView& p = args.problem;
  BackwardRow facts{INFINITY, 0, 0, 0, {}};
  if (row >= block.queries * p.group) return facts;
  const int query = row / p.group;
  const int64_t at =
      (int64_t{kv_head} * p.group + row % p.group) * p.queries + block.first_query + query;
  facts.first = block.first_seen(p, query), facts.end = block.end_seen(p, query);
  if (p.dropout) facts.draw = draw_of_row(p, block, kv_head, row);
  if (p.lse[at] != -INFINITY) facts.lse = p.lse[at], facts.delta = args.delta[at];
  return facts;
}

/// score: q · k becomes the probability as values were weighted with it; gradient: d_out · v
/// becomes the gradient of the score before its scale.
__device__ inline void backward_element(const AttentionProblemView& p, const AttentionBlock& block,
                                        const BackwardRow& row, int key, bool seen, float& score,
                                        float& gradient) {
  float s = score * p.scale, slope = 1;
  if (p.softcap > 0) {
    const float t = tanhf(s * (1.0f / p.softcap));
    s = p.softcap * t;
    slope = fmaf(-t, t, 1.0f);
  }
  const float probability =
      seen || (key >= row.first && key < row.end) ? exp2f((s - row.lse) * kLog2E) : 0.0f;
  const float factor = p.dropout ? factor_of(p, block, row.draw, key) : 1.0f;
  score = probability * factor;
  gradient = probability * fmaf(gradient, factor, -row.delta) * slope;
}

}  // namespace viaduct::cuda
