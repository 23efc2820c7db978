#include "ops/cuda/launch/product_timer.h"

#include <algorithm>
#include <limits>

#include "device/cuda/cuda_check.h"

namespace viaduct::cuda {
namespace {

constexpr int kRounds = 3;
/// Runs between two events, whose clock has steps of half a microsecond.
constexpr int kRepeats = 4;

/// Memory in the order of the stream's work: taking and returning it waits for nothing. cudaFree
/// would wait for all streams, and so for other ranks, which may wait for this one.
class Scratch {
 public:
  Scratch(int64_t bytes, Stream stream) : stream_(stream) {
    const cudaError_t error = cudaMallocAsync(&data_, static_cast<size_t>(bytes), stream);
    if (error == cudaErrorMemoryAllocation || error == cudaErrorNotSupported) {
      cudaGetLastError();
      data_ = nullptr;
      return;
    }
    check_cuda(error, "cudaMallocAsync");
    check_cuda(cudaMemsetAsync(data_, 0, static_cast<size_t>(bytes), stream), "cudaMemsetAsync");
  }
  ~Scratch() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  Stream stream_;
  void* data_ = nullptr;
};

class Timestamp {
 public:
  Timestamp() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  ~Timestamp() { cudaEventDestroy(event_); }
  Timestamp(const Timestamp&) = delete;
  Timestamp& operator=(const Timestamp&) = delete;

  void record(Stream stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Waits until both are recorded.
  double seconds_since(const Timestamp& begin) const {
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

bool is_captured(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::vector<double> time_work(int count, int64_t bytes, Stream stream,
                              const std::function<void(int, void*)>& run) {
  const Scratch scratch(bytes, stream);
  if (scratch.data() == nullptr) return {};
  std::vector<double> shortest(static_cast<size_t>(count), std::numeric_limits<double>::max());
  Timestamp begin, end;
  for (int i = 0; i < count; ++i) run(i, scratch.data());
  // In turn, so that a GPU whose clock changes slows all of them.
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < count; ++i) {
      begin.record(stream);
      for (int repeat = 0; repeat < kRepeats; ++repeat) run(i, scratch.data());
      end.record(stream);
      double& best = shortest[static_cast<size_t>(i)];
      best = std::min(best, end.seconds_since(begin) / kRepeats);
    }
  }
  return shortest;
}

}  // namespace viaduct::cuda
