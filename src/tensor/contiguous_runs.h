#pragma once
// The memory of a host tensor, for what is written to files and compared.

#include "base/function_ref.h"
#include "tensor/tensor.h"

namespace viaduct {

/// Calls `write(address, bytes)` for the elements of a host tensor of any strides, in row-major
/// order, in contiguous runs.
void for_each_run(const Tensor& tensor, FunctionRef<void(const void* data, size_t bytes)> write);

}  // namespace viaduct
