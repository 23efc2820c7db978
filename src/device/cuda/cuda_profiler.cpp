#include "device/cuda/cuda_profiler.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include "device/cuda/cuda_check.h"

namespace viaduct {

void watch_process(bool on) {
  if (on) return check_cuda(cudaProfilerStart(), "cudaProfilerStart");
  check_cuda(cudaProfilerStop(), "cudaProfilerStop");
}

void ProfilerMarks::begin(const std::string& name) {
  nvtxRangePushA(name.c_str());
}

void ProfilerMarks::end() {
  nvtxRangePop();
}

}  // namespace viaduct
