#pragma once
// Products of experts whose operands are quantized (ops/grouped_gemm.h): codes of FP8, or NVFP4's
// of 4 bits, with scales of groups, of matrices, or both.

#include "ops/cuda/kernels/grouped_gemm.h"
#include "ops/cuda/kernels/matrix_rows.h"

namespace viaduct::cuda {

/// How scales of groups are stored; none: there is only one for each matrix.
enum class GroupScales : uint8_t { none, f32, e8m0, e4m3 };

/// An operand of each expert, in codes. Element (r, c) of the operand of expert m is code
/// ((first row of m) + r) · stride + c; of two codes in a byte the even one is the lower half.
struct CodedOperand {
  const uint8_t* values;
  int64_t stride;
  MatrixRows rows;  // as `QuantizedRows` has them
  /// Rows of e2m1 that are made here: the codes of matrix m begin at row 16 · (its first group of
  /// 16 rows), so that its last 16 rows are complete.
  bool complete_rows;
  bool e5m2;
  GroupScales form;
  const void* scales;
  int64_t group_rows, group_columns;
  int64_t scale_matrix_stride, scale_row_stride, scale_column_stride;
  const float* matrix_scales;  // [experts], or null
};

struct CodedProduct : GroupedShape {
  CodedOperand a, b;
  bool halves;    // codes of 4 bits; otherwise of 8
  bool complete;  // the contracted rows of an expert are completed to 16: they are rotated together
  int64_t group;  // elements of the contracted dim between changes of scales; 0: no change
};
/// Sums in FP32, in the order of the contracted dim; those of a group of FP8 elements are summed
/// from zero and then multiplied by its scales, those of NVFP4's elements, which are codes times
/// scales of groups, in one sum.
void grouped_codes(const CodedProduct& args, Stream stream);

}  // namespace viaduct::cuda
