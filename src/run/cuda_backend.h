#pragma once
// The library of the cuda device and its kernels, libviaduct_cuda.so, which a program loads when a
// run asks for dist.device=cuda: the program itself does not need CUDA.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "comm/nccl_options.h"
#include "device/device.h"
#include "device/stopwatch.h"
#include "hardware/cuda_target.h"
#include "ops/table.h"

namespace viaduct {

/// Identifies libraries of other versions and layouts of the shared types.
struct CudaBackendBuild {
  int version = 10;
  size_t table_bytes = sizeof(OpTable), device_bytes = sizeof(Device),
         tensor_bytes = sizeof(Tensor), communicator_bytes = sizeof(Communicator);
  bool operator==(const CudaBackendBuild&) const = default;
};

/// What a run asks of its devices.
struct CudaRunSettings {
  /// Of dist.product_algorithms_path; empty: the algorithms that cuBLASLt proposes.
  std::string product_algorithms_path;
  /// Of dist.high_priority_stream_groups (comm/stream_priority.h); empty: streams beside compute
  /// have the highest priority.
  std::function<bool(std::string_view)> has_priority;
  /// The memory of the plan is NCCL's own: ranks register it (ddp.nccl_ub).
  bool registered_memory = false;
  /// Other GPUs of this process may access the memory outside of the plan: there are ranks on them.
  bool peer_access = false;
};

/// A GPU and the libraries that it is used with.
struct GpuDescription {
  std::string name;            // as the driver reports it: "NVIDIA H200"
  int compute_capability = 0;  // 90: 9.0
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // of its last cache
  std::string libraries;    // "driver 13.0, runtime 13.0, cuBLASLt 13.1.0"
};

/// The interface of the library. Its functions apply to the calling thread and its GPU.
struct CudaBackend {
  CudaBackendBuild build;  // first in every version
  int (*count_gpus)();
  /// Makes a GPU the current one of the calling thread.
  void (*use_gpu)(int ordinal);
  /// The target whose kernels the thread's GPU runs.
  CudaTarget (*target)();
  OpTable (*ops)(CudaTarget target);
  /// All kernels are loaded when it returns.
  std::unique_ptr<Device> (*make_device)(const CudaRunSettings& settings);
  /// Makes calls of libraries that a dry run noted (StepRecord::library_calls) ready, in the
  /// planned memory of a device that `make_device` has made, of which nothing is in use yet.
  void (*prepare)(Device& device, const std::set<std::string>& library_calls);
  /// The place of the thread's GPU on the bus of the machine.
  std::string (*gpu_bus_id)();
  /// Host memory that the GPU's copies use while the host continues (device/stream_backing.h).
  std::shared_ptr<void> (*pinned_memory)(int64_t bytes);
  /// Collectives by NCCL between ranks with a GPU each (comm/nccl/nccl_communicator.h).
  std::shared_ptr<Communicator> (*connect)(std::shared_ptr<Communicator> hosts,
                                           double timeout_seconds, const NcclOptions& options,
                                           const NcclRankOptions& of_rank);
  /// The thread's GPU.
  GpuDescription (*describe_gpu)();
  /// "2.28.9" of the NCCL that ranks with a GPU each would use. DeviceError if there is none.
  std::string (*nccl_version)();
  /// Why cuDNN cannot be used; "" if it can. Loads it.
  std::string (*attention_library_problem)();
  /// Times the compute stream of a device that `make_device` has made, by events on the GPU.
  std::unique_ptr<Stopwatch> (*make_stopwatch)(Device& device);
};

/// What `viaduct_cuda_backend()` returns (extern "C", the library's only symbol): the program's
/// own, if it has the backend linked in (tests, with the emulator), or that of the library: the
/// file that VIADUCT_CUDA_LIBRARY names, or libviaduct_cuda.so beside the program, in ../lib or in
/// the system's library path. ConfigError with the places and the loader's reason if there is none,
/// or if it is from another build.
const CudaBackend& cuda_backend();

/// What this process could use of the cuda device.
struct CudaStatus {
  bool installed = false;  // a library is in one of the places, or the program has its own
  std::string gpu;         // the first GPU and the libraries for it
  std::string problem;     // why there is none that could be used; "": there is one
  bool usable() const { return problem.empty(); }
};
/// Never throws, and leaves the GPU as it is: no context is made.
CudaStatus cuda_status();

}  // namespace viaduct
