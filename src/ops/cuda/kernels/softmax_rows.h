#pragma once
// The steps of a softmax cross entropy, one kernel each (ops/softmax.h), in FP32 over the first
// `columns` columns of rows [t, V].

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// Rows of floats, `stride` apart.
struct FloatRows {
  float* data = nullptr;
  int64_t stride = 0;
};

/// soft_cap: out = cap · tanh(x / cap); backward: out = x · (1 − (z / cap)²).
struct SoftCapRows {
  FloatRows x, z, out;  // z: of the backward
  int64_t rows, width;
  float cap;
};
void soft_cap(const SoftCapRows& args, Stream stream);

/// A value of each row.
enum class RowValue : uint8_t { largest, sum, pick };
struct RowValues {
  RowValue kind;
  FloatRows x;
  float* out;
  const int32_t* targets;  // of pick
  int64_t rows, columns, first_column;
};
void row_values(const RowValues& args, Stream stream);

/// exponential: out = exp(x − value[t]) in the columns, 0 beyond; else out = x / value[t].
struct RowsByValue {
  bool exponential;
  FloatRows x, out;
  const float* value;
  int64_t rows, columns, width;
};
void rows_by_value(const RowsByValue& args, Stream stream);

struct SoftmaxLossRows {
  FloatRows probabilities, out;
  const int32_t* targets;
  const float* weight;
  const double* factor;
  int64_t rows, columns, width, first_column;
};
void softmax_loss_backward(const SoftmaxLossRows& args, Stream stream);

}  // namespace viaduct::cuda
