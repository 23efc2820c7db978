#pragma once
// The largest magnitude of a matrix ("amax"), from which quantized operands get the scale of a
// whole matrix (tensor/operand_scale.h).

#include "ops/dispatch.h"
#include "tensor/tensor.h"

namespace viaduct {

/// out f32 [1] = max |matrix|; infinity if an element is not finite, so that a maximum over ranks
/// keeps it; 0 of no elements. The matrix [R, C] is f32, bf16 or f16, and its rows may be strided.
/// `rotated`: of the matrix whose rows are rotated in runs of 16 (tensor/hadamard.h), R % 16 = 0.
///
/// With out [G] the matrix is G of them, one after the other: the rows [offsets[g], offsets[g + 1])
/// (rows beyond belong to none), or without offsets R / G rows each. A rotated one whose rows are
/// not a multiple of 16 is completed by rows of zeros.
struct LargestMagnitudeArgs {
  Tensor matrix, out;
  bool rotated = false;
  Tensor offsets = {};  // i32 [G + 1], offsets[0] = 0
};

void largest_magnitude(OpContext& context, const LargestMagnitudeArgs& args);

}  // namespace viaduct
