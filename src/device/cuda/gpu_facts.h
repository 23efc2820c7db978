#pragma once
// What a GPU and its driver say about themselves, beyond what a device needs (cuda_device.h).

#include <cstdint>
#include <string>

namespace viaduct {

struct GpuFacts {
  int multiprocessors = 0;
  int64_t cache_bytes = 0;  // of its last cache
  /// "driver 13.0, runtime 13.0": the versions of CUDA that the driver supports and that this code
  /// was built with.
  std::string versions;
};

/// Of the GPU of the calling thread. DeviceError as for `make_cuda_device`.
GpuFacts facts_of_gpu();

}  // namespace viaduct
