#pragma once
// Memory of NCCL's own allocator, which it can map in the address space of other ranks' GPUs
// (ncclMemAlloc): what symmetric registration needs, and cudaMalloc does not give.

#include "device/cuda/cuda_device.h"

namespace viaduct {

/// Whether this NCCL has symmetric memory.
bool nccl_has_symmetric_memory();

/// For the plan of a device; empty, and the log says why, if NCCL has no symmetric memory.
PlanMemorySource nccl_plan_memory();

}  // namespace viaduct
