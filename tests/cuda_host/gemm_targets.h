#pragma once
// Products on the GPUs that support them, behind one entry of a table.

#include "ops/table.h"

namespace viaduct::test {

/// Products run on sm_90a; those of MXFP8 and NVFP4 operands, which it does not support, on
/// sm_100a. Quantized products that both support run on both and must give the same bytes.
OpEntry<GemmArgs> gemm_of_targets();
/// The same for products of experts; where the two have other kernels, which sum in another order,
/// their results must be close.
OpEntry<GroupedGemmArgs> grouped_gemm_of_targets();

}  // namespace viaduct::test
