#pragma once
// Quantized operands (ops/convert_operand.h) in FP8, magnitudes of matrices, and delayed scaling
// (ops/amax_history.h): the cpu's bits.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct QuantizedRows {
  Rows matrix;
  int64_t rows, columns;
  uint8_t* values;
  int64_t values_stride;
  bool e5m2;
  float* scales;          // of FP32, or
  uint8_t* scale_powers;  // of e8m0
  const float* amax;      // [1] for one scale of the whole matrix; else null, and for groups:
  int64_t group_rows = 0, group_columns = 0;
  int64_t scale_row_stride = 0, scale_column_stride = 0;  // of groups
};
/// Groups of 1, 2, 4, 8, 16 columns or of at least 32.
void quantize(const QuantizedRows& args, Stream stream);

/// Blocks of `largest_magnitude`, each with a value in the workspace.
inline constexpr int64_t kMagnitudeBlocks = 512;

/// out [1] = max |x|, infinity if an element is not finite; `workspace` [kMagnitudeBlocks].
struct Magnitudes {
  Rows matrix;
  int64_t rows, columns;
  uint32_t* workspace;
  float* out;
  bool rotated = false;  // by columns, in runs of 16 rows
};
void largest_magnitude(const Magnitudes& args, Stream stream);

void note_amax(const float* amax, float* noted, const float* chosen, float* out, Stream stream);

struct AmaxHistory {
  float *noted, *history, *chosen;
  int64_t tensors, steps;
  bool most_recent;
  int margin;
};
void choose_amax(const AmaxHistory& args, Stream stream);

}  // namespace viaduct::cuda
