#pragma once
// Matrix products of a linear layer with weight W [N, K] (output features × input features), in its
// three forms:
//
//   forward          c [M, N] = a [M, K] · Wᵀ (+ bias [N])          a = X, b = W
//   data_gradient    c [M, K] = a [M, N] · W                        a = dY, b = W
//   weight_gradient  c [N, K] (= or +=) aᵀ · b, a = dY [M, N], b = X [M, K]
//
// a and b share one dtype of {f64, f32, bf16, f16}; c has that dtype or f32; sums run in FP32 (FP64
// for f64). Rows may be strided (the innermost dim is dense); rank 2. `mode` = accumulate is
// allowed for every form; with bias or an epilogue only `assign`. The order of summation of an
// element depends on the contracted size alone, so results are bitwise equal for any number of
// threads.

#include "ops/activation.h"
#include "ops/dispatch.h"

namespace viaduct {

enum class GemmForm { forward, data_gradient, weight_gradient };

/// What is done with a product while it is in cache, instead of in an op that reads it again. At
/// most one of the tensors is there; they have the dtype of c, and bits are those of two ops, for
/// the product is rounded to c's dtype first.
struct GemmEpilogue {
  /// forward: c = residual + product, as `add`. Shape of c; not c itself.
  Tensor residual;
  /// forward: beside c, which is the product, activated = f(c), as `activation_forward` with in =
  /// c.
  Tensor activated;
  /// data_gradient: the product is that of f(raised), and c [M, K] (gated: [M, 2K]) the gradient of
  /// `raised`, as `activation_backward` with in = raised. c may be `raised` itself.
  Tensor raised;
  ActivationKind activation = ActivationKind::silu;  // f
  bool gated = false;

  bool any() const { return residual || activated || raised; }
};

struct GemmArgs {
  GemmForm form = GemmForm::forward;
  Tensor a, b, c;
  Tensor bias;  // optional, forward only; dtype of a or f32
  WriteMode mode = WriteMode::assign;
  GemmEpilogue epilogue;
  /// b once more, as tiles (weight_tiles.h), for a backend to read in its place; may be undefined.
  Tensor b_tiles;
};

void gemm(OpContext& context, const GemmArgs& args);

/// out [N] f32 (f64 for f64) (= or +=) sum over the rows of x [M, N]: the gradient of a bias. Row
/// order of summation is fixed.
struct ColumnSumArgs {
  Tensor x, out;
  WriteMode mode = WriteMode::accumulate;
};

void column_sum(OpContext& context, const ColumnSumArgs& args);

}  // namespace viaduct
