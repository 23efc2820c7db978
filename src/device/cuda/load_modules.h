#pragma once
// Loads compiled code before it is launched. No CUDA header.

#include <vector>

namespace viaduct {

/// For each of these kernels: it and all others of its module (on GPUs those of a source file), on
/// the GPU of the calling thread. DeviceError with the call and the reason if that fails; a driver
/// without the calls (before CUDA 12.4) is noted in the log, and loads them when they are launched.
void load_modules(const std::vector<const void*>& kernels);

}  // namespace viaduct
