#pragma once
// What both kernels of attention's backward compute for a row and a key.

#include "ops/cuda/kernels/attention_rounding.cuh"
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

/// What multiplies sums of products.
struct BackwardScales {
  float score, gradient;  // q · k and d_out · v
  float per_unit;         // gradients of scores, before they are rounded in these units
  float dq, dk, dv;
};

template <class T>
__device__ BackwardScales backward_scales(const AttentionBackwardView& args) {
  const AttentionProblemView& p = args.problem;
  if constexpr (!kCodes<T>) {
    return {p.scale, 1, 1, p.scale, p.scale, 1};
  } else {
    const float q = p.codes.scales[0], k = p.codes.scales[1];
    const float gradient = p.codes.scales[2] * p.codes.d_out_scale[0];
    const float dropout = p.dropout ? p.dropout_factor : 1.0f;
    // `score_gradient_scale` of ops/attention_fp8.h: the largest codes are 448 and 57344.
    const float terms = 2 * 448 * dropout * static_cast<float>(p.value_width);
    const float unit =
        power_of(power_not_below(terms * gradient * (p.codes.d_out_e5m2 ? 1.0f : 448 / 57344.0f)));
    return {p.scale * q * k,    gradient,
            1 / unit,           p.scale * unit * k,
            p.scale * unit * q, p.codes.d_out_scale[0] * dropout / kProbabilityUnits};
  }
}

/// score: q · k becomes the probability as values were weighted with it; gradient: d_out · v
/// becomes the gradient of the score before its scale. Of codes both are rounded, in their units.
template <class T>
__device__ void backward_element(const AttentionProblemView& p, const BackwardScales& scales,
                                 const AttentionBlock& block, const BackwardRow& row, int key,
                                 bool seen, float& score, float& gradient) {
  float s = score * scales.score, slope = 1;
  if (p.softcap > 0) {
    const float t = tanhf(s * (1.0f / p.softcap));
    s = p.softcap * t;
    slope = fmaf(-t, t, 1.0f);
  }
  const float probability =
      seen || (key >= row.first && key < row.end) ? exp2f((s - row.lse) * kLog2E) : 0.0f;
  const float factor = p.dropout ? factor_of(p, block, row.draw, key) : 1.0f;
  if constexpr (kCodes<T>) {
    score = rounded_to_e4m3(probability * kProbabilityUnits) * kept<T>(factor);
    const float exact = probability * fmaf(gradient * scales.gradient, factor, -row.delta) * slope;
    gradient = rounded_to_e5m2(exact * scales.per_unit);
  } else {
    score = probability * factor;
    gradient = probability * fmaf(gradient, factor, -row.delta) * slope;
  }
}

}  // namespace viaduct::cuda
