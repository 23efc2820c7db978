#pragma once
// The runtime's streams behind the names of a device, and events between them.

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "device/cuda/cuda_check.h"

namespace viaduct {

/// Streams do not wait for the default stream. Those that `has_priority` chooses, by their number,
/// go before compute: their work is short, and others wait for it.
class CudaStreams {
 public:
  explicit CudaStreams(std::function<bool(int stream)> has_priority)
      : has_priority_(std::move(has_priority)) {}
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  /// Made at its first use.
  cudaStream_t handle(int stream);
  /// An event after the work of `stream` up to at least `position`; `given` pieces of work are
  /// enqueued in the runtime so far. Valid until the next call for this stream.
  cudaEvent_t behind(int stream, int64_t position, int64_t given);
  /// Notes that the work of `stream` up to `given` is enqueued in the runtime, and that more
  /// follows: later waits for that work need not wait for what follows.
  void mark(int stream, int64_t given);
  /// Forgets the recorded points of streams: from here on a wait covers all work of its stream.
  /// Events of a capture are not valid outside it, nor others inside it.
  void forget_marks();
  /// Waits for all streams; returns the first error.
  cudaError_t finish();

 private:
  struct Mark {
    int64_t position = 0;
    cudaEvent_t event = nullptr;
  };
  struct Stream {
    cudaStream_t handle = nullptr;
    std::deque<Mark> marks;  // in ascending order
  };
  Stream& of(int stream);
  cudaEvent_t record(Stream& stream, int64_t given);

  std::function<bool(int stream)> has_priority_;
  std::vector<Stream> streams_;
};

}  // namespace viaduct
