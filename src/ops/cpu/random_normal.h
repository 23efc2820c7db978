#pragma once
// Normal random numbers by their index in the logical tensor (contract: ops/elementwise.h).

#include "ops/cpu/elementwise_entry.h"
#include "ops/elementwise.h"

namespace viaduct::cpu {

void fill_random_normal(ThreadPool& pool, const ElementwiseKernels& kernels,
                        const RandomNormalArgs& args);

}  // namespace viaduct::cpu
