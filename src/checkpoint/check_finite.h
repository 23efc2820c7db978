#pragma once
// Whether stored tensors hold NaN or infinity.

#include "checkpoint/tensor_source.h"

namespace viaduct {

/// IoError for the first tensor with a value that is not finite: its name, how many of its values
/// are, and the place of the first. Reads everything; tensors of integers are finite.
void check_finite(const TensorSource& source);

}  // namespace viaduct
