#pragma once
// Attention with its score matrix in memory (ops/score_matrix.h): f32 [N, Tq, L], element (n, t, j)
// of query t and key j of its document. `problem` has offsets, mask and dropout; its tensors of
// heads are not used.

#include "ops/cuda/kernels/attention.h"

namespace viaduct::cuda {

enum class ScoreForm : uint8_t { scores, values, keys };

/// The products of queries [Tq, N, width] and keys [Tk, K, width] through the matrix. FP32.
struct ScoreProductView {
  AttentionProblemView problem;
  ScoreForm form;
  float* matrix;
  int64_t row;  // L
  Heads queries, keys;
  Format query_format, key_format;
  int width;
  bool accumulate;  // `values`; sums of keys are always added to
};
void score_product(const ScoreProductView& args, Stream stream);

/// In place on the rows of the matrix.
struct ScoreRowsView {
  AttentionProblemView problem;
  float* matrix;  // of the backward: the gradient
  int64_t row;
  bool scale, mask, softmax;  // the steps
  bool known_lse = false;
  const float *probabilities = nullptr, *delta = nullptr;  // of the backward
};
void score_softmax(const ScoreRowsView& args, Stream stream);
void score_softmax_backward(const ScoreRowsView& args, Stream stream);

/// out = x · dropout's factors.
struct ScoreDropoutView {
  AttentionProblemView problem;
  const float* x;
  float* out;
  int64_t row;
};
void score_dropout(const ScoreDropoutView& args, Stream stream);

}  // namespace viaduct::cuda
