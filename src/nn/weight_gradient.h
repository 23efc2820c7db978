#pragma once
// The last step of a linear layer's backward.

#include "nn/context.h"
#include "nn/product.h"

namespace viaduct {

/// gradient [N, K] (= or +=) dyᵀ · x with dy [T, N] and x [T, K]: straight into its destination, or
/// through a temporary tensor where the context does not fuse. `amax`: of dy (a) and x (b), where
/// they are still tensors. `spare_multiprocessors`: as in GemmArgs.
void make_weight_gradient(RankContext& context, const Operand& dy, const Operand& x,
                          const GradientAccess::Destination& destination,
                          const Quantization& quantization = {}, const ProductAmax& amax = {},
                          int spare_multiprocessors = 0);

}  // namespace viaduct
