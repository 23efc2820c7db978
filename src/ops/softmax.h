#pragma once
// The steps of softmax cross entropy as separate ops, each with its result in memory;
// `cross_entropy_forward` and `cross_entropy_backward` fuse them. Over the first `columns` columns
// of rows [t, V] (the rest is padding of the vocabulary); f32 or f64 throughout, rows may be
// strided.

#include "ops/dispatch.h"

namespace viaduct {

/// out = cap · tanh(x / cap), cap > 0. out may be x.
struct SoftCapArgs {
  Tensor x, out;
  double cap = 0;
};
void soft_cap(OpContext& context, const SoftCapArgs& args);

/// d_in = d_out · (1 − (z / cap)²), z the output of `soft_cap`. d_in may be d_out.
struct SoftCapBackwardArgs {
  Tensor d_out, z, d_in;
  double cap = 0;
};
void soft_cap_backward(OpContext& context, const SoftCapBackwardArgs& args);

/// out [t] = the largest of a row; −∞ without columns.
struct RowLargestArgs {
  Tensor x, out;
  int64_t columns = 0;
};
void row_largest(OpContext& context, const RowLargestArgs& args);

/// out [t, V] = exp(x − shift[t]), 0 in the padding. out may be x.
struct RowExponentialArgs {
  Tensor x, shift, out;
  int64_t columns = 0;
};
void row_exponential(OpContext& context, const RowExponentialArgs& args);

/// out [t] = the sum of a row.
struct RowSumArgs {
  Tensor x, out;
  int64_t columns = 0;
};
void row_sum(OpContext& context, const RowSumArgs& args);

/// out [t, V] = x / divisor[t]. out may be x.
struct RowDivideArgs {
  Tensor x, divisor, out;
};
void row_divide(OpContext& context, const RowDivideArgs& args);

/// out [t] = x[t, target − first_column]; 0 where the target (i32) is −1 or not among the columns.
struct RowPickArgs {
  Tensor x, targets, out;
  int64_t columns = 0, first_column = 0;
};
void row_pick(OpContext& context, const RowPickArgs& args);

/// out [t, V] = weight[t] · factor · (probabilities − onehot(target)); weight f32 [t], factor f64
/// [1] in device memory; 0 in the padding and where weight is 0. out may be probabilities.
struct SoftmaxLossBackwardArgs {
  Tensor probabilities, targets, weight, factor, out;
  int64_t columns = 0, first_column = 0;
};
void softmax_loss_backward(OpContext& context, const SoftmaxLossBackwardArgs& args);

}  // namespace viaduct
