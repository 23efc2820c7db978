#pragma once
// The numbers that FP8 codes and the scales of their groups stand for (ops/convert_operand.h): the
// cpu's bits.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// out BF16 [rows, columns], dense = codes times the scales of their groups.
struct ExpandedRows {
  const uint8_t* codes;
  int64_t rows, columns;
  int64_t stride;  // of the codes' rows
  bool e5m2;
  const float* scales;          // of FP32, or
  const uint8_t* scale_powers;  // of e8m0
  int64_t group_rows, group_columns;
  int64_t scale_row_stride, scale_column_stride;  // of groups
  void* out;
};
void expand(const ExpandedRows& args, Stream stream);

}  // namespace viaduct::cuda
