#pragma once
// Products on the GPUs that have them, behind one entry of a table.

#include "ops/table.h"

namespace viaduct::test {

/// Products of sm_90a; of MXFP8 and NVFP4 operands, which it does not have, of sm_100a. Quantized
/// products that both have run on both and must leave the same bytes.
OpEntry<GemmArgs> gemm_of_targets();

}  // namespace viaduct::test
