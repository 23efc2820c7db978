#pragma once
// Quantized operands of 4 bits (tensor/nvfp4.h) with the cpu's bits: codes of e2m1, two in a byte,
// E4M3 scales of groups and one scale of the matrix.

#include "ops/cuda/kernels/matrix_rows.h"
#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// How elements are rounded: to nearest even without tokens, else stochastic
/// (ops/stochastic_rounding.h).
struct RandomBits {
  static constexpr int kMostRuns = 192;
  uint64_t key = 0;
  const int64_t* token_index = nullptr;  // of each row, or
  bool one_token = false;  // [1]: of the first row of each matrix, whose rows count on from there
  int runs = 0;
  int64_t begin[kMostRuns];   // columns, counted through all matrices
  uint64_t first[kMostRuns];  // features
};

/// One operand, or one for each of several matrices.
struct Nvfp4Rows {
  Rows matrix;
  MatrixRows rows;
  int64_t columns;             // an even number
  bool rotated = false;        // columns, in runs of 16 rows
  bool complete_rows = false;  // each group of 16 rows has 16 rows of codes, at 16 · its number
  const float* amax;           // [matrices]
  float* matrix_scale;         // [matrices]
  uint8_t* values;
  int64_t values_stride;  // bytes
  uint8_t* scales;
  int64_t scale_matrix_stride = 0;                // as `QuantizedRows` has it
  int64_t scale_row_stride, scale_column_stride;  // of groups
  int group_rows, group_columns;                  // 1 × 16, 16 × 1 or 16 × 16
  RandomBits random;
};
void quantize_nvfp4(const Nvfp4Rows& args, Stream stream);

/// Elements [begin, begin + count) of a matrix with `columns` columns, and what its squares of 16 ×
/// 16 have (ops/square_codes.h).
struct SquarePart {
  Vector part;
  int64_t begin, count, columns;
  float* magnitudes = nullptr;          // for `square_magnitudes`
  const uint8_t* scales = nullptr;      // for `square_codes`, and what follows
  const float* matrix_scale = nullptr;  // [1]
  uint8_t* codes = nullptr;             // [count / 2]
};
void square_magnitudes(const SquarePart& args, Stream stream);
void square_codes(const SquarePart& args, Stream stream);

struct SquareScales {
  const float *magnitudes, *amax;  // [count], [1]
  int64_t count;
  uint8_t* scales;
  float* matrix_scale;
};
void square_scales(const SquareScales& args, Stream stream);

}  // namespace viaduct::cuda
