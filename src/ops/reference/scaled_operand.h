#pragma once
// Quantized operands and their products in plain loops: the reference for tests of backends that
// multiply them. Elements of e4m3, e5m2 or i8 (−127 … 127) in a form that shows its shape, scales
// of f32 or e8m0. Quantization and products of elements are exact up to the one rounding of the
// format; sums run in FP32.
//
// The scale of a group is amax / (largest element), amax the largest magnitude in the group:
//   f32 of the whole matrix  as it is (Micikevicius et al. 2022, section 3: per-tensor scaling)
//   f32 of a group, e8m0     the least power of two that is not below it, so that nothing saturates
//                            (DeepSeek-V3 report 2024, section 3.3; Mishra et al. 2025, "Recipes
//                            for pre-training LLMs with MXFP8", algorithm 1)
// A group of zeros has the scale 1; one with a value that is not finite has NaN.

#include "ops/gemm.h"

namespace viaduct::reference {

/// The largest magnitude of an element format. DeviceError for other dtypes.
float largest_element(DType element);

/// args.out = args.matrix (any floating dtype), quantized.
void quantize(const ConvertOperandArgs& args);

/// value × scale of every element, f32 [R, C].
Tensor dequantized(const Operand& operand);

/// `gemm` of two quantized operands, without epilogue. Elements that share both scales are summed
/// in order from zero, the scales multiply that sum, and these products are summed in order; c and
/// bias are f32, bf16 or f16.
void scaled_gemm(const GemmArgs& args);

}  // namespace viaduct::reference
