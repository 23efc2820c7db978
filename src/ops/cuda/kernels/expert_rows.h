#pragma once
// Sums over the rows of a token's experts, and biases of experts (ops/expert_rows.h,
// ops/expert_bias.h), with the cpu's bits except the dot products of rows.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// out [tokens, width] = Σ over places p weight[t, p / copies] · rows[position[t, p]].
struct CombinedRows {
  Rows rows, out;
  const int32_t* position;  // [tokens, places], −1: none
  const float* weight;      // [tokens, places / copies], or null
  int64_t tokens, width, places, copies;
};
void combine_rows(const CombinedRows& args, Stream stream);

struct CombinedRowGradients {
  Rows d_out, rows, d_rows;  // d_rows may be rows; without d_weight rows are not read
  const int32_t* position;
  const float* weight;
  float* d_weight;  // or null
  int64_t tokens, width, places, copies;
};
void combine_rows_backward(const CombinedRowGradients& args, Stream stream);

/// out[r] (= or +=) x[r] · y[r], or with offsets [experts + 1] x[r] · y[e] for the rows of expert
/// e.
struct DotsOfRows {
  Rows x, y;
  float* out;
  const int32_t* offsets;  // or null
  int64_t rows, experts, width;
  bool accumulate;
};
void row_dots(const DotsOfRows& args, Stream stream);

/// d_weight[i] = Σ over the copies of dots[position[i · copies + c]] / weight[i]; 0 for weights of
/// 0.
struct CombinedWeightGradients {
  const float* dots;
  const int32_t* position;  // [weights, copies], −1: none
  const float* weight;
  float* d_weight;
  int64_t weights, copies;
};
void combine_weights_backward(const CombinedWeightGradients& args, Stream stream);

/// x[r] += bias[e] for the rows [offsets[e], offsets[e + 1]) of expert e.
struct ExpertBiasRows {
  Rows x, bias;
  const int32_t* offsets;  // [experts + 1]
  int64_t rows, experts, width;
};
void expert_bias(const ExpertBiasRows& args, Stream stream);

/// d_bias[e] += Σ dy[r] over the rows of expert e, in their order.
struct ExpertBiasGradient {
  Rows dy;
  float* d_bias;
  const int32_t* offsets;
  int64_t experts, width;
};
void expert_bias_backward(const ExpertBiasGradient& args, Stream stream);

}  // namespace viaduct::cuda
