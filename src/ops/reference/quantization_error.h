#pragma once
// What quantization does to a matrix, in plain loops: the definition of ops/quantization_error.h.

#include "ops/quantization_error.h"

namespace viaduct::reference {

/// Compares `matrix` [R, C] with the matrix that `operand`, in a form that is not rotated,
/// represents. Both are in memory that the host reads.
QuantizationError quantization_error(const Tensor& matrix, const Operand& operand);

}  // namespace viaduct::reference
