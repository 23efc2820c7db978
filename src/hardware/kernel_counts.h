#pragma once
// What the machine code of our GPU kernels with matrix instructions does: the counts that CI holds
// them to (docs/cuda.md, "Budgets").

#include <string_view>

#include "hardware/cluster.h"
#include "hardware/cuda_target.h"

namespace viaduct {

/// Instructions that a warp executes for one of its matrix instructions, in the loop that has most
/// of them; of all kernels whose names, as in the budgets, begin and end so, the most. 0 if the
/// target has none.
double instructions_per_product(CudaTarget target, std::string_view begins, std::string_view ends);

/// Instructions of warps that the GPU's multiprocessors begin in a second, at the clock of its
/// peaks: each has four schedulers, which begin one instruction a cycle.
double instructions_per_second(const Gpu& gpu);

}  // namespace viaduct
