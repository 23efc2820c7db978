#pragma once
// Ranks with one GPU of the double each, connected by NCCL's double, and their tensors.

#include <gtest/gtest.h>

#include <functional>

#include "comm/nccl/nccl_communicator.h"
#include "comm/world.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "device/cuda/cuda_device.h"
#include "unit/cuda_host/constant_tensors.h"

namespace viaduct::test {

using Main = std::function<void(CudaDevice& device, const std::shared_ptr<Communicator>& world)>;

inline void run_ranks(int ranks, uint64_t seed, double timeout, const Main& main) {
  cuda_host::reset_runtime({.seed = seed, .devices = ranks});
  nccl_double::reset({.seed = seed});
  run_thread_ranks(ranks, {.timeout_seconds = 30}, [&](std::shared_ptr<Communicator> hosts) {
    use_gpu(hosts->rank());
    const auto world = make_nccl_communicator(hosts, timeout);
    const auto device = make_cuda_device({.poison = true});
    world->record_on(device.get());
    main(*device, world);
    device->finish();
  });
  EXPECT_EQ(nccl_double::live_connections(), 0);
}

inline Tensor filled(Device& device, int64_t count, float value) {
  const Tensor there = device.allocate(DType::f32, {count}, MemoryTag::activations);
  device.copy_from_host(constants(value, count), there);
  return there;
}

/// Doubles each number on compute, as a kernel launch would.
inline void double_all(CudaDevice& device, const Tensor& tensor) {
  device.launched(kComputeStream);
  float* data = tensor.data<float>();
  cuda_host::enqueue(device.handle(kComputeStream), "double", [data, count = tensor.elements()] {
    for (int64_t i = 0; i < count; ++i) data[i] *= 2;
  });
}

}  // namespace viaduct::test
