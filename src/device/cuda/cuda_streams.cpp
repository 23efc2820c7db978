#include "device/cuda/cuda_streams.h"

#include <algorithm>

namespace viaduct {
namespace {

/// Number of points of a stream that are kept for waits. A wait for an older point uses the oldest
/// kept one, which is later than necessary.
constexpr size_t kMostMarks = 64;

}  // namespace

CudaStreams::~CudaStreams() {
  for (Stream& stream : streams_) {
    for (const Mark& mark : stream.marks) cudaEventDestroy(mark.event);
    if (stream.handle != nullptr) cudaStreamDestroy(stream.handle);
  }
}

CudaStreams::Stream& CudaStreams::of(int stream) {
  const auto number = static_cast<size_t>(stream);
  if (streams_.size() <= number) streams_.resize(number + 1);
  Stream& found = streams_[number];
  if (found.handle == nullptr) {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
    check_cuda(cudaStreamCreateWithPriority(&found.handle, cudaStreamNonBlocking,
                                            has_priority_(stream) ? greatest : least),
               "cudaStreamCreateWithPriority");
  }
  return found;
}

cudaStream_t CudaStreams::handle(int stream) {
  return of(stream).handle;
}

cudaEvent_t CudaStreams::record(Stream& stream, int64_t given) {
  Mark mark{given, nullptr};
  // A stream that waits for an event waits for what was recorded when it was told so: the event may
  // be recorded again.
  if (stream.marks.size() >= kMostMarks) {
    mark.event = stream.marks.front().event;
    stream.marks.pop_front();
  } else {
    check_cuda(cudaEventCreateWithFlags(&mark.event, cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  }
  stream.marks.push_back(mark);
  check_cuda(cudaEventRecord(mark.event, stream.handle), "cudaEventRecord");
  return mark.event;
}

void CudaStreams::mark(int stream, int64_t given) {
  Stream& marked = of(stream);
  if (given > 0 && (marked.marks.empty() || marked.marks.back().position < given))
    record(marked, given);
}

cudaEvent_t CudaStreams::behind(int stream, int64_t position, int64_t given) {
  Stream& waited = of(stream);
  const auto found = std::find_if(waited.marks.begin(), waited.marks.end(),
                                  [&](const Mark& mark) { return mark.position >= position; });
  return found != waited.marks.end() ? found->event : record(waited, given);
}

void CudaStreams::forget_marks() {
  for (Stream& stream : streams_) {
    for (const Mark& mark : stream.marks)
      check_cuda(cudaEventDestroy(mark.event), "cudaEventDestroy");
    stream.marks.clear();
  }
}

cudaError_t CudaStreams::finish() {
  cudaError_t first = cudaSuccess;
  for (const Stream& stream : streams_) {
    if (stream.handle == nullptr) continue;
    const cudaError_t error = cudaStreamSynchronize(stream.handle);
    if (first == cudaSuccess) first = error;
  }
  return first;
}

}  // namespace viaduct
