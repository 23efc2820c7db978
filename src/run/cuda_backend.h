#pragma once
// The library of the cuda device and its kernels, libviaduct_cuda.so, which a program loads when a
// run asks for dist.device=cuda: the program itself needs nothing of CUDA.

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "device/device.h"
#include "hardware/cuda_target.h"
#include "ops/table.h"

namespace viaduct {

/// Tells libraries of other versions and layouts of the shared types apart.
struct CudaBackendBuild {
  int version = 4;
  size_t table_bytes = sizeof(OpTable), device_bytes = sizeof(Device),
         tensor_bytes = sizeof(Tensor), communicator_bytes = sizeof(Communicator);
  bool operator==(const CudaBackendBuild&) const = default;
};

/// What the library gives. Its functions belong to the calling thread and its GPU.
struct CudaBackend {
  CudaBackendBuild build;  // first in every version
  int (*count_gpus)();
  /// Makes a GPU that of the calling thread.
  void (*use_gpu)(int ordinal);
  /// Whose kernels the thread's GPU runs.
  CudaTarget (*target)();
  OpTable (*ops)(CudaTarget target);
  std::unique_ptr<Device> (*make_device)();
  /// Of the thread's GPU: its place on the bus of the machine.
  std::string (*gpu_bus_id)();
  /// Host memory that the GPU's copies use while the host goes on (nn/stream_backing.h).
  std::shared_ptr<void> (*pinned_memory)(int64_t bytes);
  /// Collectives by NCCL between ranks with a GPU each (comm/nccl/nccl_communicator.h).
  std::shared_ptr<Communicator> (*connect)(std::shared_ptr<Communicator> hosts,
                                           double timeout_seconds);
};

/// What `viaduct_cuda_backend()` returns (extern "C", the library's only symbol): the program's
/// own, if it has the backend linked in (tests, with the emulator), or that of the library: the
/// file that VIADUCT_CUDA_LIBRARY names, or libviaduct_cuda.so beside the program, in ../lib or
/// where the system looks for libraries. ConfigError with the places and the loader's reason if
/// there is none, or one of another build.
const CudaBackend& cuda_backend();

}  // namespace viaduct
