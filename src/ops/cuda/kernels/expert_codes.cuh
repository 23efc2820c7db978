#pragma once
// One of several coded operands: where its codes begin, and the scales of its elements.

#include "ops/cuda/kernels/code_numbers.cuh"
#include "ops/cuda/kernels/grouped_codes.h"
#include "ops/cuda/kernels/matrix_rows.cuh"

namespace viaduct::cuda {

/// The operand of one expert.
struct ExpertCodes {
  const uint8_t* values;
  int64_t rows, columns;
  int64_t scale_at;  // of its first group
};

/// `rows`, `columns`: its sizes, with completed rows.
__device__ inline ExpertCodes codes_of_expert(const CodedOperand& from, bool halves, int64_t expert,
                                              int64_t rows, int64_t columns) {
  const int64_t row =
      from.complete_rows ? first_group(from.rows, expert, 16) * 16 : first_row(from.rows, expert);
  ExpertCodes own{from.values + row * from.stride / (halves ? 2 : 1), rows, columns};
  if (from.form != GroupScales::none) {
    own.scale_at = from.rows.offsets != nullptr
                       ? first_group(from.rows, expert, from.group_rows) * from.scale_row_stride
                       : expert * from.scale_matrix_stride;
  }
  return own;
}

/// The scale of the group of element (row, column).
__device__ inline float group_scale(const CodedOperand& from, const ExpertCodes& own, int64_t row,
                                    int64_t column) {
  const int64_t at = own.scale_at + row / from.group_rows * from.scale_row_stride +
                     column / from.group_columns * from.scale_column_stride;
  if (from.form == GroupScales::f32) return static_cast<const float*>(from.scales)[at];
  const uint8_t code = static_cast<const uint8_t*>(from.scales)[at];
  return from.form == GroupScales::e8m0 ? power_of(code) : decode_e4m3(code);
}

}  // namespace viaduct::cuda
