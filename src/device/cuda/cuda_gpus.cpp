// Lists the GPUs, or says why there is none.

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/gpu_facts.h"

namespace viaduct {
namespace {

constexpr int kOldestCapability = 80;

/// "13.0" of 13000.
std::string version_name(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

int count_gpus() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  // The runtime reports a missing driver as an old one.
  if (error == cudaErrorInsufficientDriver) {
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    const std::string found =
        driver > 0 ? "a driver for CUDA " + version_name(driver) : std::string("no driver");
    fail<DeviceError>(
        "dist.device=cuda: found {}, needed one for CUDA {} or newer: install a newer NVIDIA "
        "driver, or train with dist.device=cpu",
        found, version_name(runtime));
  }
  VIADUCT_CHECK(DeviceError, error == cudaSuccess || error == cudaErrorNoDevice,
                "dist.device=cuda: the GPUs cannot be counted: {} ({})", cudaGetErrorString(error),
                cudaGetErrorName(error));
  fail<DeviceError>(
      "dist.device=cuda: found no GPU, needed at least one: check CUDA_VISIBLE_DEVICES and the "
      "machine, or train with dist.device=cpu");
}

void use_gpu(int ordinal) {
  const int count = count_gpus();
  VIADUCT_CHECK(DeviceError, ordinal >= 0 && ordinal < count,
                "dist.device=cuda: GPU {} is needed, and this process sees {}", ordinal, count);
  check_cuda(cudaSetDevice(ordinal), "cudaSetDevice");
}

GpuProperties gpu_of_thread() {
  count_gpus();
  int ordinal = 0;
  check_cuda(cudaGetDevice(&ordinal), "cudaGetDevice");
  cudaDeviceProp found;
  check_cuda(cudaGetDeviceProperties(&found, ordinal), "cudaGetDeviceProperties");
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  GpuProperties gpu{found.name, ordinal, 10 * found.major + found.minor,
                    static_cast<int64_t>(found.totalGlobalMem), driver};
  VIADUCT_CHECK(DeviceError, gpu.compute_capability >= kOldestCapability,
                "dist.device=cuda: found GPU {} ({}) of compute capability {}.{}, needed 8.0 or "
                "newer (A100, H100, B200 and the like)",
                ordinal, gpu.name, found.major, found.minor);
  return gpu;
}

GpuFacts facts_of_gpu() {
  const GpuProperties gpu = gpu_of_thread();
  cudaDeviceProp found;
  check_cuda(cudaGetDeviceProperties(&found, gpu.ordinal), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {found.multiProcessorCount, found.l2CacheSize,
          fmt::format("driver {}, runtime {}", version_name(driver), version_name(runtime))};
}

}  // namespace viaduct
