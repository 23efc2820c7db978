#pragma once
// The interface of the double of the CUDA runtime for tests, and for kernels and doubles of
// libraries that queue work in its streams. Its functions have the names of the toolkit's
// (runtime/cuda_runtime_api.h).
//
//   - Each stream is a queue. Whenever the host waits, and sometimes when it does not, a random
//     stream whose first piece of work may begin runs that piece: only the order within a stream
//     and waits for events order two pieces. For some time some streams run far more often than
//     others.
//   - New and freed memory is 0xFF everywhere, which is NaN.
//   - With `guard`, memory of a device can be accessed only while a piece of work runs: an access
//     of the host is a fault.
//   - Streams that wait for each other, calls of the runtime from a host function, copies beyond an
//     allocation and freed streams with work are errors. A kernel that breaks a rule makes every
//     later call fail, and the text of that error has its message.
//   - Calls of host threads and the work of all devices exclude each other.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

struct CUstream_st;

namespace cuda_host {

struct RuntimeSettings {
  /// 0: work runs when it is queued, in the order of the program.
  uint64_t seed = 0;
  int devices = 1;
  size_t memory_bytes = size_t{4} << 30;  // of a device
  int compute_capability = 90;
  bool guard = false;
  /// Whether the driver has virtual memory, and the bytes of its smallest piece (on GPUs 2 MiB).
  bool virtual_memory = true;
  size_t granule = size_t{64} << 10;
  int driver = 13000;
  /// An error that cudaGetDeviceCount returns instead of a number (35: old driver, 100: no device).
  int no_device = 0;
  /// The time for which work may only wait for other ranks before that is an error.
  double patience_seconds = 20;
  /// The first launch of a file of kernels that was not loaded before, of a kind of product and of
  /// a plan of cuDNN waits until the device has ended all its work.
  bool lazy_loading = false;
  /// Until all devices of the process have, which may access each other's memory.
  bool loads_wait_for_all = false;
};

struct RuntimeCounts {
  int64_t kernels = 0, copies = 0, allocations = 0, host_waits = 0, event_waits = 0;
  int64_t out_of_order = 0;   // pieces that ran while an older one waited in another stream
  int64_t shared_pieces = 0;  // of virtual memory that all devices may access
  int64_t first_uses = 0;     // of code that was loaded for them (lazy_loading)
};

/// Starts over. DeviceMemory and streams of earlier users must be gone (std::logic_error).
void reset_runtime(const RuntimeSettings& settings);
RuntimeCounts runtime_counts();
/// CUDA_DEVICE_MAX_CONNECTIONS as it was at the first call of the runtime or the driver since then:
/// CUDA reads it when it starts.
std::string connections_at_start();

/// Queues work in a stream; null: it runs at once, without the runtime. `unit`: the code that a
/// first use must load; "": it is loaded.
void enqueue(CUstream_st* stream, const char* what, std::function<void()> work,
             const std::string& unit = {});
/// Called by work: to the times of events, its stream needs this much longer than it did.
void spend(double seconds);

}  // namespace cuda_host
