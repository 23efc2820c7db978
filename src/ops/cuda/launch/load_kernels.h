#pragma once
// Loads all kernels before the first one runs. CUDA loads a kernel at its first launch otherwise,
// and may wait for all work of the GPU for it; if that work is an operation with other ranks, these
// may wait for this one (CUDA programming guide, "Lazy loading", concurrent execution). No CUDA
// header.

namespace viaduct::cuda {

/// Kernels of all files (kernels/*.cu), on the GPU of the calling thread. DeviceError with the
/// driver's reason if one cannot be loaded.
void load_kernels();

}  // namespace viaduct::cuda
