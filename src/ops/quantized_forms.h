#pragma once
// The forms of quantized operands that recipes define, for backends whose products read them
// row-major.

#include "ops/gemm.h"

namespace viaduct {

/// Row-major values with scales as `quantization` says; plain where it quantizes nothing. Scales of
/// the whole matrix, and of squares of a weight, are the same in all products that read the matrix;
/// others lie along the dim that the product contracts.
GemmForms quantized_forms(GemmForm form, const Quantization& quantization);

}  // namespace viaduct
