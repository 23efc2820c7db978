#pragma once
// Quantized operands of 4 bits (tensor/nvfp4.h) with the cpu's bits: codes of e2m1, two in a byte,
// E4M3 scales of groups and one scale of the matrix.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// How elements are rounded: to nearest even without tokens, else stochastic
/// (ops/stochastic_rounding.h).
struct RandomBits {
  static constexpr int kMostRuns = 64;
  uint64_t key = 0;
  const int64_t* token_index = nullptr;
  int runs = 0;
  int64_t begin[kMostRuns];   // columns
  uint64_t first[kMostRuns];  // features
};

struct Nvfp4Rows {
  Rows matrix;
  int64_t rows, columns;  // an even number
  bool rotated;           // columns, in runs of 16 rows
  const float* amax;      // [1]
  float* matrix_scale;    // [1]
  uint8_t* values;
  int64_t values_stride;  // bytes
  uint8_t* scales;
  int64_t scale_row_stride, scale_column_stride;  // of groups
  int group_rows, group_columns;                  // 1 × 16, 16 × 1 or 16 × 16
  RandomBits random;
};
void quantize_nvfp4(const Nvfp4Rows& args, Stream stream);

}  // namespace viaduct::cuda
