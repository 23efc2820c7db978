#pragma once
// Converts a matrix to another form (tensor/operand.h), such as a backend's products read: tiles,
// quantized values with scales. The backend defines the forms (`gemm_operand_forms`).

#include "ops/dispatch.h"
#include "ops/stochastic_rounding.h"
#include "tensor/operand.h"

namespace viaduct {

/// out = matrix [R, C] in out's form, which is not plain. The matrix is floating, and its rows may
/// be strided; out has its dtype and shape, and contiguous values and scales. Padding of tiles is
/// zero. For forms that the backend does not make: DeviceError that lists the existing ones.
struct ConvertOperandArgs {
  Tensor matrix;
  Operand out;
  /// f32 [1], if out has a scale for the whole matrix, and only then: the largest magnitude that
  /// the scale is made for (`largest_magnitude`, of the rotated matrix if out is rotated). Larger
  /// elements are saturated.
  Tensor amax = {};
  /// Of elements of e2m1. Column-wise forms draw other numbers than row-wise ones.
  StochasticRounding rounding = {};
};

void convert_operand(OpContext& context, const ConvertOperandArgs& args);

/// out bf16 [R, C], contiguous = the matrix whose elements the operand has: its values times the
/// scales of their groups, rounded to nearest even. The operand has a quantized form without a
/// scale of the whole matrix.
struct ExpandOperandArgs {
  Operand operand;
  Tensor out;
};
void expand_operand(OpContext& context, const ExpandOperandArgs& args);

/// An uninitialised operand.
Operand allocate_operand(const OpContext& context, const OperandForm& form, DType dtype,
                         const Shape& matrix, MemoryTag tag);
/// An uninitialised stack of `count` of them, in a form that is not plain.
Operand allocate_stack(const OpContext& context, int64_t count, const OperandForm& form,
                       DType dtype, const Shape& matrix, MemoryTag tag);

/// A matrix in `form`: the operand itself if it has the form or is not a tensor, else converted
/// now. `amax`, `rounding`: as ConvertOperandArgs; not read if the form has no scale of the whole
/// matrix or other elements. `amax` f32 [2] is for both kinds of forms: its second value is of the
/// rotated matrix.
Operand operand_in(OpContext& context, const Operand& operand, const OperandForm& form,
                   MemoryTag tag, const Tensor& amax = {}, const StochasticRounding& rounding = {});

}  // namespace viaduct
