#pragma once
// The toolkit's header of this name, for builds without one.

#include "cuda_host/runtime/cuda_runtime_api.h"

extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}
