#pragma once
// The rules of cuBLASLt for descriptors: what products exist on a GPU.

#include <string>

#include "product_sums.h"

namespace cublaslt_double {

/// Empty, or what is wrong with the problem on a GPU of this compute capability (90: 9.0).
std::string check(const Problem& p, int capability);

}  // namespace cublaslt_double
