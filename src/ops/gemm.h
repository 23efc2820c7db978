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
// allowed for every form; with bias only `assign`. The order of summation of an element depends on
// the contracted size alone, so results are bitwise equal for any number of threads.

#include "ops/dispatch.h"

namespace viaduct {

enum class GemmForm { forward, data_gradient, weight_gradient };

struct GemmArgs {
  GemmForm form = GemmForm::forward;
  Tensor a, b, c;
  Tensor bias;  // optional, forward only; dtype of a or f32
  WriteMode mode = WriteMode::assign;
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
