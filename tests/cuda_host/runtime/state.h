#pragma once
// The state of the runtime's double: streams with their work, memory, devices. One mutex guards all
// of it; a piece of work holds it while it runs.

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_host/graphs.h"
#include "cuda_host/runtime/cuda_runtime_api.h"
#include "cuda_host/streams.h"

namespace cuda_host {

/// One recording of an event.
struct Gate {
  bool open = false;
  std::chrono::steady_clock::time_point opened;
  double spent = 0;  // of its stream, so far
};

struct Work {
  std::string what;
  std::function<void()> run;    // may be empty
  std::shared_ptr<Gate> waits;  // begins when this gate is open
  std::shared_ptr<Gate> opens;
  uint64_t number = 0;
  /// Whether other ranks, or room on the device that they free, are there; empty: waits for none.
  std::function<bool()> others_came = nullptr;
  /// Makes the work for a launch, if captured work differs at each launch of its graph.
  std::function<Work()> again = nullptr;
};

struct Block {
  size_t bytes = 0, mapped = 0;
  int device = 0;             // −1: pinned host memory
  bool mapped_piece = false;  // virtual memory, one of neighbours that are used as one
  bool allowed = true;        // access
  bool shared = true;         // access of the other devices
};

/// Memory of a device that has no address yet.
struct Piece {
  size_t bytes = 0;
  int device = 0;
  bool mapped = false;
};

}  // namespace cuda_host

/// Work as it was captured, by stream.
struct CUgraph_st {
  std::thread::id capturer;  // the thread that began the capture
  std::vector<std::pair<CUstream_st*, cuda_host::Work>> nodes;
};
struct CUgraphExec_st {
  CUgraph_st graph;
  std::vector<CUstream_st*> streams;  // of its launches, by number of the captured one
};
struct CUstream_st {
  int device = 0;
  int priority = 0;  // as it was created with; lower goes first
  std::deque<cuda_host::Work> queue;
  double eagerness = 1;
  double spent = 0;                     // seconds that its work said it takes (`spend`)
  std::shared_ptr<CUgraph_st> capture;  // the capture that it is in
  bool origin = false;                  // the capture began here
};
struct CUevent_st {
  std::shared_ptr<cuda_host::Gate> last;  // null: never recorded
  std::shared_ptr<CUgraph_st> capture;    // of that recording
};

namespace cuda_host {

class Runtime {
 public:
  using Lock = std::unique_lock<std::recursive_mutex>;

  /// The state of a call: a lock, and the error that it must return at once.
  struct Call {
    Lock lock;
    cudaError_t error = cudaSuccess;
  };
  Call call();
  void reset(const RuntimeSettings& settings);

  void push(CUstream_st* stream, Work work);
  /// A launch of code of `unit` comes next: where that is its first use on the device, and it was
  /// not loaded before, the device must have ended all its work (modules.cpp).
  cudaError_t use(const CUstream_st& stream, const std::string& unit);
  /// Runs work until `done()`. Throws an error if no work can begin before, or if work only waits
  /// for other ranks for `settings.patience_seconds`; these may use the runtime meanwhile.
  cudaError_t until(const std::function<bool()>& done);
  bool step_any();
  /// Lets the device run for a while beside the host.
  void run_some();

  void* take(size_t bytes, int device);
  cudaError_t give(void* data, bool pinned);
  /// Virtual memory (virtual_memory.cpp). False: the range is not one for this.
  bool reserved(const char* at, size_t bytes) const;
  bool map(char* at, size_t bytes, int device);
  bool unmap(char* at, size_t bytes);
  /// `shared`: for all devices.
  bool allow(char* at, size_t bytes, bool shared);
  bool peers_may_access(const void* data) const;
  /// Called by work: memory of the device ends in the order of a stream.
  void drop(void* data);
  void spend(double seconds);
  /// Whether [data, data + bytes) lies in one allocation, or outside of all.
  bool inside(const void* data, size_t bytes) const;
  size_t used(int device) const;

  RuntimeSettings settings;
  RuntimeCounts counts;
  GraphCounts graphs;
  std::set<CUstream_st*> streams;
  std::map<char*, size_t> ranges;    // of addresses
  std::map<uint64_t, Piece> pieces;  // by handle
  uint64_t pieces_made = 0;
  std::set<std::pair<int, std::string>> loaded;  // code by device
  /// CUDA_DEVICE_MAX_CONNECTIONS at the first call; none: there was no call.
  std::optional<std::string> connections_at_start;
  std::string failure;               // of the first kernel that failed
  cudaError_t sticky = cudaSuccess;  // every call returns it
  cudaError_t last = cudaSuccess;

 private:
  void step(CUstream_st* stream);
  void draw_eagerness();
  bool waits_for_others() const;
  void open_memory(bool open);

  std::recursive_mutex mutex_;
  std::mt19937_64 random_;
  std::map<char*, Block> blocks_;
  uint64_t next_ = 1;
  int until_draw_ = 0;
  int beside_ = 8;
  bool open_ = false;
  bool in_work_ = false;
  CUstream_st* running_ = nullptr;  // the stream of that work
};

Runtime& runtime();
/// The device of this thread of the system.
int& current_device();

}  // namespace cuda_host
