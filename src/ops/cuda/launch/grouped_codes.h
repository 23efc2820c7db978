#pragma once
// The quantized half of the launch of `grouped_gemm`.

#include "ops/cuda/kernels/grouped_gemm.h"
#include "ops/cuda/launch/launch_args.h"
#include "ops/grouped_gemm.h"

namespace viaduct::cuda {

/// `shape`: what the products have in common with those of other operands.
void launch_grouped_codes(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
                          const GroupedShape& shape, void* workspace);

}  // namespace viaduct::cuda
