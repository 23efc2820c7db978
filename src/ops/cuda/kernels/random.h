#pragma once
// Kernels that draw random numbers: Philox by a token's global index and its feature, or by the
// element's index in the logical tensor (ops/elementwise.h, ops/random_rows.h). Keys are mixed
// (`philox_key`).

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// out = (residual +) x · (factor where the upper 23 bits of a word are at least `threshold`, else
/// 0).
struct DropoutRows {
  Rows x, residual, out;
  int64_t rows, width;
  uint64_t key;
  const int64_t* token_index;
  int64_t first_feature;
  uint32_t threshold;
  float factor;
};
void dropout(const DropoutRows& args, Stream stream);

/// out = x · (1 + epsilon · (2u − 1)); without x out = u.
struct UniformRows {
  Rows x, out;
  int64_t rows, width;
  uint64_t key;
  const int64_t* token_index;
  float epsilon = 0;
};
void uniform_rows(const UniformRows& args, Stream stream);

/// out [rows, width] = mean + deviation · n, n by the place in the logical tensor.
struct NormalRows {
  Rows out;  // f64 too
  int64_t rows, width;
  uint64_t key;
  double mean, deviation;
  int64_t first_row, first_column, row_elements;
  bool transposed;
};
void random_normal(const NormalRows& args, Stream stream);

}  // namespace viaduct::cuda
