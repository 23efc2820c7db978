#pragma once
// The GPU that the tests of this program run on.

#include <memory>
#include <string>

#include "device/device.h"
#include "hardware/cuda_target.h"
#include "ops/table.h"

namespace viaduct::test {

struct GpuMachine {
  CudaTarget target = CudaTarget::sm_80;
  OpTable ops;
  std::unique_ptr<Device> device;
  /// Whether there were products of formats that the target has not: the cpu computed them.
  bool products_on_cpu = false;
};

/// The first GPU, by the library that dist.device=cuda loads; made at the first call, which throws
/// DeviceError or ConfigError if there is none, or no library.
GpuMachine& gpu_machine();
/// Frees what is on the GPU, before the library of the device is closed.
void release_gpu_machine();

}  // namespace viaduct::test
