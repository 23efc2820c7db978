#pragma once
// Quantized operands (ops/convert_operand.h) in FP8, magnitudes of matrices, and delayed scaling
// (ops/amax_history.h): the cpu's bits.

#include "ops/cuda/kernels/matrix_rows.h"
#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// One operand, or one for each of several matrices, none of which has a group with rows of
/// another.
struct QuantizedRows {
  Rows matrix;
  MatrixRows rows;
  int64_t columns;
  uint8_t* values;
  int64_t values_stride;
  bool e5m2;
  float* scales;          // of FP32, or
  uint8_t* scale_powers;  // of e8m0
  const float* amax;  // [matrices] for one scale of the whole matrix; else null, and for groups:
  int64_t group_rows = 0, group_columns = 0;
  int64_t scale_row_stride = 0, scale_column_stride = 0;  // of groups
  int64_t scale_matrix_stride = 0;  // of matrices with equal rows; with offsets, groups of rows are
                                    // numbered through all matrices
};
/// Groups of 1, 2, 4, 8, 16 columns or of at least 32.
void quantize(const QuantizedRows& args, Stream stream);
/// The same, with one read of the matrix, for groups of 32 or 128 rows or columns, or 128 × 128, of
/// one matrix with even rows and aligned memory. False, and nothing done, for others.
bool quantize_tiles(const QuantizedRows& args, Stream stream);

/// Most blocks of `largest_magnitude` for each of some matrices, with a value in the workspace
/// each.
inline int64_t magnitude_blocks(int64_t matrices) {
  constexpr int64_t kBlocks = 512;
  return matrices < kBlocks ? kBlocks / matrices : 1;
}

/// out [matrices] = max |x|, infinity if an element is not finite; `workspace` [matrices,
/// magnitude_blocks].
struct Magnitudes {
  Rows matrix;
  MatrixRows rows;
  int64_t columns;
  uint32_t* workspace;
  float* out;
  bool rotated = false;  // by columns, in runs of 16 rows, the last completed by zeros
};
void largest_magnitude(const Magnitudes& args, Stream stream);

struct NotedAmax {
  const float *amax, *chosen;
  float *noted, *out;
  int64_t count;
};
void note_amax(const NotedAmax& args, Stream stream);

struct AmaxHistory {
  float *noted, *history, *chosen;
  int64_t tensors, steps;
  bool most_recent;
  int margin;
};
void choose_amax(const AmaxHistory& args, Stream stream);

}  // namespace viaduct::cuda
