#pragma once
// Makes the calls of cuBLASLt and cuDNN ready that a dry run noted. These libraries load a kernel
// at its first launch, and may wait for all work of the GPU for it; if that work is an operation
// with other ranks, these may wait for this one. No CUDA header.

#include <set>
#include <string>

#include "device/cuda/cuda_device.h"

namespace viaduct::cuda {

/// Makes each of the calls (ops/cuda/library_call.h) once, in the device's planned memory, of which
/// nothing may be in use yet, and waits for them. A call whose operands do not fit there is left to
/// its first use; a step has all of them there at once. DeviceError with the library's reason for a
/// call that it does not support.
void prepare_libraries(CudaDevice& device, const std::set<std::string>& calls);

}  // namespace viaduct::cuda
