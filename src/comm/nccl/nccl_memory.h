#pragma once
// Memory of NCCL's own allocator, which it can map in the address space of other ranks' GPUs
// (ncclMemAlloc): what registration needs, and cudaMalloc does not give. From NCCL 2.24 on the
// library takes the registration of other memory without an error, and does nothing.

#include "device/cuda/cuda_device.h"

namespace viaduct {

/// Whether this NCCL has symmetric memory.
bool nccl_has_symmetric_memory();

/// For the plan of a device whose memory is registered. DeviceError if NCCL has no such memory.
PlanMemorySource nccl_plan_memory();

}  // namespace viaduct
