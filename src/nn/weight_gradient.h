#pragma once
// The last step of the backward of a linear layer, or of several (ops/grouped_gemm.h).

#include "nn/context.h"
#include "nn/product.h"
#include "ops/grouped_gemm.h"

namespace viaduct {

/// gradient [N, K] (= or +=) dyᵀ · x with dy [T, N] and x [T, K]: straight into its destination, or
/// through a temporary tensor where the context does not fuse. `amax`: of dy (a) and x (b), where
/// they are still tensors. `spare_multiprocessors`: as in GemmArgs.
void make_weight_gradient(RankContext& context, const Operand& dy, const Operand& x,
                          const GradientAccess::Destination& destination,
                          const Quantization& quantization = {}, const ProductAmax& amax = {},
                          int spare_multiprocessors = 0);

/// The same of grouped products, whose `args` say all but c and how it is written.
void make_grouped_gradient(RankContext& context, GroupedGemmArgs args,
                           const GradientAccess::Destination& destination);

}  // namespace viaduct
