#pragma once
// Where the operands of quantized products of experts (ops/grouped_gemm.h), and those that are
// measured (ops/quantization_error.h), lie: in the workspace those that the op makes, as the
// kernels of kernels/grouped_codes.h read them. From shapes and forms alone, so that a dry run has
// the same launches, bytes and workspace as a run.

#include "ops/grouped_gemm.h"

namespace viaduct::cuda {

/// One operand of all experts. Its groups of rows begin with each expert's first row.
struct GroupedOperand {
  OperandForm form;
  bool made = false;           // here, from a tensor; otherwise a stack of operands
  bool of_rows = false;        // of the experts' rows, which only the device counts; else weights
  bool complete_rows = false;  // codes have 16 rows for each group of 16
  int64_t columns = 0;
  int64_t stride = 0;                                          // elements of a row of codes
  int64_t group_rows = 0, group_columns = 0;                   // 0: no scales of groups
  int64_t scale_matrix_stride = 0;                             // of weights
  int64_t scale_row_stride = 0, scale_column_stride = 0;       // of groups
  int64_t values_at = 0, scales_at = 0, matrix_scales_at = 0;  // bytes in the workspace
  int64_t values_bytes = 0, scales_bytes = 0, matrix_scales_bytes = 0;
  int64_t bytes() const { return values_bytes + scales_bytes + matrix_scales_bytes; }
};

struct GroupedOperands {
  GroupedOperand a, b;
  bool warpgroups = false;  // multiply them (warpgroup_products.h)
  int64_t workspace_bytes = 0;
};

/// Of `quantization_error`: the operand, and where in the workspace the sums of parts are.
struct MeasuredPlan {
  GroupedOperand operand;
  int64_t parts_at = 0;
};

/// An operand of `matrices` matrices in `form`. `from`: the matrices [R, K], of which it is made
/// in the workspace from `end` on, or the operand itself. `of_rows`: offsets say which rows belong
/// to each.
GroupedOperand grouped_operand(const OperandForm& form, const Operand& from, bool of_rows,
                               int64_t matrices, int64_t& end);

/// The products are quantized.
GroupedOperands grouped_operands(const GroupedGemmArgs& args);

}  // namespace viaduct::cuda
