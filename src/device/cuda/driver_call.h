#pragma once
// Functions of the driver, found at run time: no library of ours is linked with the driver.

#include <cuda.h>

#include "device/cuda/cuda_check.h"

namespace viaduct {

/// Sets `call` to the driver's function of this name, as CUDA `version` (12000: 12.0) has it.
/// False: the driver has none.
template <class Call>
bool find_driver_call(Call& call, const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (error != cudaSuccess) cudaGetLastError();
  call = reinterpret_cast<Call>(found);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess && found != nullptr;
}

/// DeviceError with the call and the driver's number of the error.
inline void check_driver(CUresult result, const char* call) {
  VIADUCT_CHECK(DeviceError, result == CUDA_SUCCESS, "cuda: {}: error {} of the driver", call,
                static_cast<int>(result));
}

}  // namespace viaduct
