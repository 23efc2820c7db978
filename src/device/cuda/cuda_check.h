#pragma once
// Errors of the CUDA runtime as exceptions.

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace viaduct {

/// DeviceError with the call and the runtime's reason.
inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  fail<DeviceError>("cuda: {}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace viaduct
