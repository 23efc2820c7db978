#pragma once
// Converts a matrix to another form (tensor/operand.h), such as a backend's products read: tiles,
// quantized values with scales. The backend defines the forms (`gemm_operand_forms`).

#include "ops/dispatch.h"
#include "tensor/operand.h"

namespace viaduct {

/// out = matrix [R, C] in out's form, which is not plain. The matrix is floating, and its rows may
/// be strided; out has its dtype and shape, and contiguous values and scales. Padding of tiles is
/// zero. For forms that the backend does not make: DeviceError that lists the existing ones.
struct ConvertOperandArgs {
  Tensor matrix;
  Operand out;
};

void convert_operand(OpContext& context, const ConvertOperandArgs& args);

/// An uninitialised operand.
Operand allocate_operand(const OpContext& context, const OperandForm& form, DType dtype,
                         const Shape& matrix, MemoryTag tag);

/// A matrix in `form`: the operand itself if it has the form or is not a tensor, else converted
/// now.
Operand operand_in(OpContext& context, const Operand& operand, const OperandForm& form,
                   MemoryTag tag);

}  // namespace viaduct
