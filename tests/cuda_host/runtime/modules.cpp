// Loading of code, of the doubles of driver and runtime: a module is a file of kernels, which its
// name stands for, as its only function.

#include <cuda.h>

#include <algorithm>

#include "cuda_host/runtime/state.h"

namespace cuda_host {

cudaError_t Runtime::use(const CUstream_st& stream, const std::string& unit) {
  if (!settings.lazy_loading || unit.empty()) return sticky;
  if (!loaded.insert({stream.device, unit}).second) return sticky;
  ++counts.first_uses;
  if (stream.capture != nullptr) return sticky;  // it runs at a launch of the graph
  if (until([&] {
        return std::all_of(streams.begin(), streams.end(), [&](const CUstream_st* other) {
          const bool waits = settings.loads_wait_for_all || other->device == stream.device;
          return !waits || other->queue.empty();
        });
      }) != cudaSuccess)
    failure = "the first use of " + unit + " waits for the device: " + failure;
  return sticky;
}

}  // namespace cuda_host

using cuda_host::runtime;
using cuda_host::Runtime;

extern "C" {

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  *function = static_cast<cudaFunction_t>(const_cast<void*>(symbol));
  return cudaSuccess;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  *module = reinterpret_cast<CUmodule>(function);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  if (count > 0) functions[0] = reinterpret_cast<CUfunction>(module);
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
  const Runtime::Call call = runtime().call();
  if (call.error != cudaSuccess) return CUDA_ERROR_UNKNOWN;
  runtime().loaded.insert({cuda_host::current_device(), reinterpret_cast<const char*>(function)});
  return CUDA_SUCCESS;
}
}
