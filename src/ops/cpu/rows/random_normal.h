#pragma once
// Normal random numbers by their index in the logical tensor (contract: ops/elementwise.h).

#include "ops/cpu/rows/elementwise_kernels.h"
#include "ops/elementwise.h"

namespace viaduct::cpu {

void fill_random_normal(ThreadPool& pool, const ElementwiseKernels& kernels,
                        const RandomNormalArgs& args);

}  // namespace viaduct::cpu
