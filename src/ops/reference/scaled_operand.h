#pragma once
// Quantized operands and their products in plain loops: the reference for tests of backends that
// multiply them. Elements of e4m3, e5m2, i8 (−127 … 127) or e2m1x2 in a form that shows its shape,
// scales of f32, e8m0, or e4m3 beside a matrix scale, which `quantize` does not make. Quantization
// and products of elements are exact up to the one rounding of the format; sums run in FP32.
// Scales: tensor/operand_scale.h.

#include "ops/grouped_gemm.h"

namespace viaduct::reference {

/// args.out = args.matrix (any floating dtype), quantized. Without `amax` the scale of a whole
/// matrix is made for its largest magnitude.
void quantize(const ConvertOperandArgs& args);

/// value × scale of every element, f32 [R, C].
Tensor dequantized(const Operand& operand);

/// The scale of every element, f32 [R, C].
Tensor element_scales(const Operand& operand);

/// `gemm` of two quantized operands, without epilogue. Elements that share both scales are summed
/// in order from zero, the scales multiply that sum, and these products are summed in order; c and
/// bias are f32, bf16 or f16.
void scaled_gemm(const GemmArgs& args);

/// `grouped_gemm` of quantized operands by its definition, with products and sums in FP64: each
/// expert's operands are `quantize` of its rows and its weight. c is f64; a and b floating. Not for
/// NVFP4, which `quantize` does not make. `magnitudes`: of |elements|, for bounds of sums.
void scaled_grouped_gemm(const GroupedGemmArgs& args, bool magnitudes = false);

}  // namespace viaduct::reference
