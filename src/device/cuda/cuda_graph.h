#pragma once
// A graph of the CUDA runtime as a graph of the device: capture of compute's stream and of those
// that wait for it, and launches.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_memory.h"
#include "device/device_graph.h"

namespace viaduct {

class CudaGraph final : public DeviceGraph {
 public:
  using Listener = std::function<void(cudaStream_t)>;
  /// `exec` becomes this object's. `memory`: blocks that the captured work uses. `listeners` hear
  /// of each launch.
  CudaGraph(cudaGraphExec_t exec, std::shared_ptr<CudaMemory> memory,
            std::vector<Listener> listeners)
      : listeners_(std::move(listeners)), exec_(exec), memory_(std::move(memory)) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(cudaStream_t stream) const {
    check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
    for (const Listener& listener : listeners_) listener(stream);
  }

 private:
  const std::vector<Listener> listeners_;
  cudaGraphExec_t exec_;
  std::shared_ptr<CudaMemory> memory_;
};

/// From here on `stream`, and each stream that waits for an event of it, captures its work. Other
/// calls of this thread work as usual: memory may be allocated.
void begin_graph(cudaStream_t stream);
/// The captured work, ready to be launched. DeviceError if a stream that joined was not waited for.
cudaGraphExec_t end_graph(cudaStream_t stream);
/// Drops the capture, after an error.
void drop_graph(cudaStream_t stream);

}  // namespace viaduct
