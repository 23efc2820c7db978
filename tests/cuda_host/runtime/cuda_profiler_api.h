#pragma once
// Replaces the toolkit's header of this name in builds without one.

#include "cuda_host/runtime/cuda_runtime_api.h"

extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}
