#pragma once
// Elementwise ops over tensors of equal shape; outer dims may be strided, the innermost is dense;
// arithmetic in FP32 (FP64 for f64).

#include "base/philox.h"
#include "ops/dispatch.h"

namespace viaduct {

/// out = a + b (floating; dtypes may differ). out may alias either.
struct AddArgs {
  Tensor a, b, out;
};
void add(OpContext& context, const AddArgs& args);

/// out [T, N, H] = a [T, N, H] · b [T, H], b the same for all N (floating; dtypes may differ). out
/// may alias a.
struct MultiplyArgs {
  Tensor a, b, out;
};
void multiply(OpContext& context, const MultiplyArgs& args);

/// to (= or +=) from, converted between floating dtypes (integers: equal dtypes, assign only). Any
/// strides, also transposed.
struct CopyArgs {
  Tensor from, to;
  WriteMode mode = WriteMode::assign;
};
void copy(OpContext& context, const CopyArgs& args);

/// out [n] = x[0] + x[1] + … over the rows of x [r, n] (floating, contiguous, r ≥ 1), in row order,
/// in the dtype of out: f32, or f64 for f64.
struct SumRowsArgs {
  Tensor x, out;
};
void sum_rows(OpContext& context, const SumRowsArgs& args);

/// out = factor · x; the factor is constant over the run's steps.
struct ScaleArgs {
  Tensor x, out;
  double factor = 1;
};
void scale(OpContext& context, const ScaleArgs& args);

/// Every element of a contiguous floating tensor becomes `value`.
struct FillArgs {
  Tensor out;
  double value = 0;
};
void fill(OpContext& context, const FillArgs& args);

/// out [T, H] = (residual +) x · mask / (1 − probability). The mask of token t, feature h comes
/// from Philox(key; counter low = token_index[t], high = (first_feature + h) / 4), word
/// (first_feature + h) % 4: keep iff uniform_open(word) ≥ probability. The gradient is the same op
/// on dy without residual. out may alias x or residual. probability 0 uses no random numbers.
struct DropoutArgs {
  Tensor x, residual, out;
  double probability = 0;
  RandomKey key;
  Tensor token_index;  // i64 [T]
  int64_t first_feature = 0;
};
void dropout(OpContext& context, const DropoutArgs& args);

/// out[r, c] = mean + std · n, n standard normal from Philox(key; element) with element =
/// (first_row + r) · row_elements + first_column + c, the index in the logical tensor: independent
/// of how the tensor is cut. Two elements share one counter (Box and Muller 1958): counter element
/// / 2 (high half 0), r cos(2π u₂) for even and r sin(2π u₂) for odd elements, r = √(−2 ln u₁),
/// u = (upper 52 bits of two words + ½) · 2^−52, u₁ from words 0 and 1, u₂ from 2 and 3 (first word
/// high). `transposed`: out[r, c] is logical element (first_row + c,
/// first_column + r). Computed in FP64, rounded to FP32 and to the dtype of out (rank 1 or 2).
struct RandomNormalArgs {
  Tensor out;
  double mean = 0, standard_deviation = 1;
  RandomKey key;
  int64_t first_row = 0, first_column = 0, row_elements = 0;
  bool transposed = false;
};
void random_normal(OpContext& context, const RandomNormalArgs& args);

}  // namespace viaduct
