// The entry of libviaduct_cuda.so.

#include "comm/nccl/nccl_communicator.h"
#include "comm/nccl/nccl_memory.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_stopwatch.h"
#include "device/cuda/gpu_facts.h"
#include "device/cuda/stream_priority.h"
#include "ops/cuda/launch/attention_library.h"
#include "ops/cuda/launch/cuda_launches.h"
#include "ops/cuda/launch/load_kernels.h"
#include "ops/cuda/launch/prepare_libraries.h"
#include "ops/cuda/launch/product_library.h"
#include "run/cuda_backend.h"

namespace viaduct {
namespace {

CudaTarget target_of_gpu() {
  const int capability = gpu_of_thread().compute_capability;
  const std::optional<CudaTarget> target = cuda_target_for(capability);
  VIADUCT_CHECK(DeviceError, target.has_value(),
                "dist.device=cuda: found a GPU of compute capability {}.{}; kernels exist for 8.x, "
                "9.0, 10.x and from 12.0 on",
                capability / 10, capability % 10);
  return *target;
}

std::unique_ptr<Device> make_device(const CudaRunSettings& settings) {
  cuda::load_kernels();
  CudaDeviceSettings of_device;
  of_device.peer_access = settings.peer_access;
  if (settings.registered_memory) of_device.plan_memory = nccl_plan_memory();
  std::unique_ptr<CudaDevice> device = make_cuda_device(of_device, settings.has_priority);
  if (!settings.product_algorithms_path.empty()) {
    const GpuProperties& gpu = device->properties();
    device->state<cuda::ProductLibrary>().choose_by_time(
        settings.product_algorithms_path, {gpu.name, gpu.compute_capability, gpu.driver});
  }
  return device;
}

void prepare(Device& device, const std::set<std::string>& library_calls) {
  cuda::prepare_libraries(dynamic_cast<CudaDevice&>(device), library_calls);
}

GpuDescription describe_gpu() {
  const GpuProperties gpu = gpu_of_thread();
  const GpuFacts facts = facts_of_gpu();
  return {gpu.name,
          gpu.compute_capability,
          facts.multiprocessors,
          gpu.memory_bytes,
          facts.cache_bytes,
          facts.versions + ", cuBLASLt " + cuda::product_library_version()};
}

}  // namespace
}  // namespace viaduct

extern "C" __attribute__((visibility("default"))) const viaduct::CudaBackend*
viaduct_cuda_backend() {
  using namespace viaduct;
  static const CudaBackend backend{{},
                                   count_gpus,
                                   use_gpu,
                                   target_of_gpu,
                                   cuda_ops_with_launches,
                                   make_device,
                                   prepare,
                                   gpu_bus_id,
                                   pinned_memory,
                                   make_nccl_communicator,
                                   describe_gpu,
                                   nccl_version,
                                   cuda::attention_library_problem,
                                   make_event_stopwatch};
  return &backend;
}
