#pragma once
// Measurements of quantized operands (ops/quantization_error.h): the cpu's bits.

#include "ops/cuda/kernels/grouped_codes.h"
#include "ops/quantization_sums.h"

namespace viaduct::cuda {

/// Operands of several matrices, or of one, and what they are compared with. Rows and columns of a
/// matrix are those of its operand.
struct MeasuredRows {
  Rows matrix;
  int64_t columns;
  CodedOperand operand;
  bool halves;        // codes of 4 bits; otherwise of 8
  float largest;      // number of the format
  double* workspace;  // [matrices, error_parts, kErrorSums]
  double* sums;       // [matrices, kErrorSums]
};
void quantization_error(const MeasuredRows& args, Stream stream);

}  // namespace viaduct::cuda
