#pragma once
// The cuda device of a rank: memory of one GPU, streams with events between them, and the state
// that a backend keeps from launch to launch. It includes no CUDA header, because launches of ops
// include it.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/kept_launches.h"
#include "device/device.h"

struct CUstream_st;  // the runtime's

namespace viaduct {

/// The properties of a GPU, from `cudaGetDeviceProperties`.
struct GpuProperties {
  std::string name;
  int ordinal = 0;             // among those that this process sees
  int compute_capability = 0;  // 90: 9.0
  int64_t memory_bytes = 0;
  int driver = 0;  // the newest CUDA that the driver supports, 13000: 13.0
};

/// Where the memory of a plan comes from.
struct PlanMemorySource {
  /// Null if the GPU has no room.
  void* (*take)(int64_t bytes) = nullptr;
  void (*give)(void* data) = nullptr;
};

struct CudaDeviceSettings {
  /// Memory is filled with 0xFF, which is NaN, when it is allocated and when it is freed (the first
  /// and the last MiB of it): for tests.
  bool poison = false;
  PlanMemorySource plan_memory = {};  // empty: cudaMalloc
  /// Memory outside of the plan may be accessed by the other GPUs that this process sees: NCCL has
  /// ranks of one process read and write each other's tensors.
  bool peer_access = true;
};

class CudaDevice : public Device {
 public:
  ~CudaDevice() override;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  bool has_side_streams() const override { return true; }
  virtual const GpuProperties& properties() const = 0;
  /// The runtime's stream, on which the caller enqueues the work that `launched` announced last;
  /// created at its first use.
  virtual CUstream_st* handle(int stream) = 0;
  /// Waits for all streams.
  virtual void finish() = 0;

  /// The number of the capture that keeps the streams' work now (`capture`), from 1; 0: none does.
  virtual int64_t capture_number() const = 0;
  /// Of the graph that is captured now: `launched` is called right after each of its launches, with
  /// the stream that has it. The graph owns `launched`, and is gone before that is.
  virtual void on_launch(std::function<void(CUstream_st*)> launched) = 0;

  /// Where launches for compute are kept now instead of being made (device/launch_groups.h); null:
  /// they are made at once.
  virtual KeptLaunches* kept_launches() = 0;

  /// The memory of the plan; no bytes without a plan.
  virtual std::pair<void*, int64_t> planned_memory() const = 0;
  /// Equal on devices whose plans have the same allocations at the same places; 0 without a plan.
  virtual uint64_t plan_fingerprint() const = 0;

  /// What a backend keeps between launches (handles of libraries, plans, scratch): one object of
  /// each type, default-constructed at its first use and destroyed before the device's streams.
  template <class State>
  State& state() {
    static const char kType = 0;
    for (const auto& [type, made] : states_)
      if (type == &kType) return *static_cast<State*>(made.get());
    states_.emplace_back(&kType, std::make_shared<State>());
    return *static_cast<State*>(states_.back().second.get());
  }

 protected:
  /// The device calls it in its destructor, when its streams are idle.
  void release_states() {
    while (!states_.empty()) states_.pop_back();
  }

 private:
  std::vector<std::pair<const void*, std::shared_ptr<void>>> states_;
};

/// The GPUs that this process sees. DeviceError that says what was found and what is needed if
/// there is none.
int count_gpus();
/// Makes GPU `ordinal` the one of the calling thread, and of devices created by it.
void use_gpu(int ordinal);
/// The GPU of the calling thread. DeviceError as for `make_cuda_device`.
GpuProperties gpu_of_thread();
/// A device on the GPU of the calling thread, for use by this thread. DeviceError if there is no
/// GPU, or one that is older than compute capability 8.0.
std::unique_ptr<CudaDevice> make_cuda_device(const CudaDeviceSettings& settings = {});
/// Host memory of at least `bytes` that copies of streams read and write while the host continues.
/// DeviceError if the system has none.
std::shared_ptr<void> pinned_memory(int64_t bytes);

}  // namespace viaduct
