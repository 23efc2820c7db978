#pragma once
// Quantized operands in the order in which cuBLASLt reads them (product_layout.h): values with the
// contracted dim last and padded with zeros, scales in lines, squares or tiles.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

/// to [rows, columns] = element (i, k) of the operand at i · kept_stride + k · contracted_stride,
/// zero from (kept, contracted) on. Strides and `columns` count elements of 8 or 4 bits; with 4,
/// the element with the even index is the lower half of a byte. One of the strides is 1.
struct OperandValues {
  const uint8_t* from;
  uint8_t* to;
  bool halves;  // elements of 4 bits
  int64_t kept, contracted;
  int64_t kept_stride, contracted_stride;
  int64_t rows, columns;
};
void order_values(const OperandValues& args, Stream stream);

/// How scales lie in memory; [rows, columns] are those along the kept and the contracted dim.
enum class ScaleOrder : uint8_t {
  columns_last,  // [rows, columns]
  rows_last,     // [columns, rows]
  tiles,         // tiles of 128 rows × 4 columns, 512 bytes each, row by row of tiles; in a tile
                 // row r, column c at r % 32 · 16 + r / 32 · 4 + c
};

/// to [rows, columns] in `order` = the scale of the operand at that place: scale (i, l) of `to`
/// is that of elements (i · row_elements, l · column_elements) of the operand, which are in the
/// group (i · row_elements / kept_group, …) of `from`. Zero where the operand ends.
struct OperandScales {
  const void* from = nullptr;
  void* to = nullptr;
  bool wide = false;    // from f32; else bytes
  bool powers = false;  // to e8m0, of the powers of two in `from`; else as in `from`
  ScaleOrder order = ScaleOrder::columns_last;
  int64_t kept = 0, contracted = 0;                // of the operand
  int64_t kept_stride = 0, contracted_stride = 0;  // of `from`
  int64_t kept_group = 1, contracted_group = 1;
  int64_t row_elements = 1, column_elements = 1;
  int64_t rows = 0, columns = 0;
};
void order_scales(const OperandScales& args, Stream stream);

/// out [2] = a [1] · b [1], and beta.
void product_factor(const float* a, const float* b, float beta, float* out, Stream stream);

}  // namespace viaduct::cuda
