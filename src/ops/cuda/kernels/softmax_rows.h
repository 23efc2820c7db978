#pragma once
// The steps of softmax cross entropy (ops/softmax.h), in FP32 over the first `columns` columns of
// rows [t, V].

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// Rows of floats, `stride` apart.
struct FloatRows {
  float* data = nullptr;
  int64_t stride = 0;
};

/// A value of each row: the element at its target if there are targets, else its sum or its
/// largest element.
struct ReducedRows {
  FloatRows x;
  float* out;
  const int32_t* targets;  // null: none
  int64_t rows, columns, first_column;
  bool sum;
};
void reduce_rows(const ReducedRows& args, Stream stream);

/// As RowMap of ops/softmax.h.
enum class RowFormula : uint8_t { soft_cap, soft_cap_backward, exponential, divide, loss_backward };

/// out = formula(x) in the columns, 0 beyond.
struct MappedRows {
  RowFormula formula;
  FloatRows x, out;
  FloatRows by = {};  // of exponential and divide: one value, of row t at data[t]
  float cap = 0;
  int64_t rows = 0, columns = 0, width = 0;
  // Of loss_backward:
  const int32_t* targets = nullptr;
  int64_t first_column = 0;
  const float* weight = nullptr;
  const double* factor = nullptr;
};
void map_rows(const MappedRows& args, Stream stream);

}  // namespace viaduct::cuda
