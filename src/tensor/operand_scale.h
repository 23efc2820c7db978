#pragma once
// Scales of quantized operands. An element is its code times the scale of its group.
//
// The scale is amax / (largest element), amax the largest magnitude in the group:
//   f32 of the whole matrix  as it is (Micikevicius et al. 2022, section 3: per-tensor scaling)
//   f32 of a group, e8m0     the smallest power of two that is at least this, so that nothing
// saturates
//                            (DeepSeek-V3 report 2024, section 3.3; Mishra et al. 2025, "Recipes
//                            for pre-training LLMs with MXFP8", algorithm 1)
// A group of zeros has the scale 1; one with a value that is not finite has NaN. Scales of whole
// matrices are at least 2^-126, powers of two 2^-127.

#include "tensor/operand.h"

namespace viaduct {

/// The largest magnitude of an element format. DeviceError for other dtypes.
float largest_element(DType element);

/// The scale of a group whose largest magnitude is `amax`.
float operand_scale(float amax, DType element, const ScaleForm& form);

}  // namespace viaduct
