#pragma once
// Whether stored tensors hold NaN or infinity.

#include <string>

#include "checkpoint/tensor_source.h"

namespace viaduct {

/// IoError for the first tensor with a value that is not finite: its name, how many of its values
/// are, and the place of the first. Reads everything; tensors of integers are finite.
void check_finite(const TensorSource& source);
/// The same of one tensor, in contiguous host memory, that is called `name` and comes from `where`.
void check_finite(const Tensor& tensor, const std::string& name, const std::string& where);

}  // namespace viaduct
