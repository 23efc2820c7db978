#pragma once
// Attention with its score matrix in memory (ops/score_matrix.h): f32 [N, Tq, L], element (n, t, j)
// of query t and key j of its document; bf16 or f16 where it holds factors of products. `problem`
// has offsets, mask and dropout; its tensors of heads are not used.

#include "ops/cuda/kernels/attention.h"

namespace viaduct::cuda {

enum class ScoreForm : uint8_t { scores, values, keys };

/// The kernels of a choice for a product: by vector units, and by matrix units.
inline constexpr int kVectorScores = 0, kMatrixScores = 1;

/// The products of queries [Tq, N, width] and keys [Tk, K, width] through the matrix.
struct ScoreProductView {
  AttentionProblemView problem;  // `wide`: rows of 16-bit inputs may be read by 16 bytes
  ScoreForm form;
  void* matrix;
  Format matrix_format;
  int64_t row;  // L
  Heads queries, keys;
  Format query_format, key_format;
  int width;
  bool accumulate;  // `values`; sums of keys are always added to
  bool pairs;       // two elements of the matrix may be read at once at even places of a row
};
/// FP32, by the vector units; operands in any format.
void score_product(const ScoreProductView& args, Stream stream);
/// The widest heads of `score_product_mma`.
inline constexpr int kWidestScores = 256;
/// By matrix units: inputs other than the matrix are in one 16-bit format, and elements of the
/// matrix, if they are factors, in the same or rounded to it. Heads up to kWidestScores.
void score_product_mma(const ScoreProductView& args, Stream stream);

/// In place on the rows of the matrix, or from there to `narrow`.
struct ScoreRowsView {
  AttentionProblemView problem;
  float* matrix;  // of the backward: the gradient
  int64_t row;
  bool scale, mask, softmax;  // the steps
  bool known_lse = false;
  void* narrow = nullptr;  // [N, Tq, L]
  Format narrow_format = Format::f32;
  const void* probabilities = nullptr;  // of the backward
  Format probability_format = Format::f32;
  const float* delta = nullptr;
};
void score_softmax(const ScoreRowsView& args, Stream stream);
void score_softmax_backward(const ScoreRowsView& args, Stream stream);

/// out = x · dropout's factors.
struct ScoreDropoutView {
  AttentionProblemView problem;
  const void* x;
  void* out;
  Format format;  // of both
  int64_t row;
};
void score_dropout(const ScoreDropoutView& args, Stream stream);

}  // namespace viaduct::cuda
