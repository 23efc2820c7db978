#pragma once
// Tensors as bytes, for tests that move tensors without computing with them.

#include <string>

#include "tensor/tensor.h"

namespace viaduct::test {

/// A tensor whose bytes are a pattern that depends on `seed` and differs between nearby places.
Tensor patterned(DType dtype, const Shape& shape, uint64_t seed);

/// The elements in row-major order.
std::string bytes_of(const Tensor& tensor);

}  // namespace viaduct::test
