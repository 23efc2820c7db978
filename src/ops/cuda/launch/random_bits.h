#pragma once
// Stochastic rounding as the kernels of quantized operands take it.

#include "ops/cuda/kernels/nvfp4.h"
#include "ops/stochastic_rounding.h"

namespace viaduct::cuda {

/// Row-wise and column-wise forms draw other numbers.
RandomBits random_bits(const StochasticRounding& rounding, bool row_wise);

}  // namespace viaduct::cuda
