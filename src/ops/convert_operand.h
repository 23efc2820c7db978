#pragma once
// From a matrix to another form of it (tensor/operand.h), the one that a backend's products read:
// tiles, quantized values with their scales. Which forms there are is the backend's to say
// (`gemm_operand_forms`).

#include "ops/dispatch.h"
#include "tensor/operand.h"

namespace viaduct {

/// out = matrix [R, C] in out's form, which is not plain. The matrix is floating, and its rows may
/// be strided; out has its dtype and shape, and contiguous values and scales. Padding of tiles is
/// zero. DeviceError, naming what there is, for forms that the backend does not make.
struct ConvertOperandArgs {
  Tensor matrix;
  Operand out;
};

void convert_operand(OpContext& context, const ConvertOperandArgs& args);

/// Uninitialised.
Operand allocate_operand(const OpContext& context, const OperandForm& form, DType dtype,
                         const Shape& matrix, MemoryTag tag);

/// A matrix in `form`: the operand itself if it has the form or is no tensor any more, else made
/// now.
Operand operand_in(OpContext& context, const Operand& operand, const OperandForm& form,
                   MemoryTag tag);

}  // namespace viaduct
