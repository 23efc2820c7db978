#pragma once
// The cuda device over the runtime's double, with the cpu's kernels as the work of its streams.

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cuda_host/streams.h"
#include "device/cuda/cuda_device.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/launch/keep_launches.h"
#include "run/rank_device.h"
#include "support/instruction_set.h"
#include "support/stream_ops.h"

namespace viaduct::test {

inline bool is_cuda(const Device& device) {
  return dynamic_cast<const CudaDevice*>(&device) != nullptr;
}

inline void push_on_cuda(OpContext& context, std::string_view what, std::function<void()> work) {
  auto& device = dynamic_cast<CudaDevice&>(context.device);
  cuda_host::enqueue(device.handle(context.stream), std::string(what).c_str(), std::move(work));
}

inline const OpTable& host_kernels() {
  static const OpTable kTable = cpu_ops(instruction_set());
  return kTable;
}
inline const OpTable& queued_host_kernels() {
  static const OpTable kTable = queued(host_kernels());
  return kTable;
}

/// A cuda device with the cpu's ops.
inline RankDevice device_with_host_ops(int gpu) {
  use_op_queue({is_cuda, push_on_cuda, &host_kernels()});
  use_gpu(gpu);
  return {make_cuda_device({.poison = true}),
          cuda::keep_launches<queued_host_kernels>(host_kernels())};
}

}  // namespace viaduct::test
