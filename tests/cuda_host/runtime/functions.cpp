// The functions of the runtime's double.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda_host/runtime/state.h"

using cuda_host::current_device;
using cuda_host::Gate;
using cuda_host::runtime;
using cuda_host::Runtime;
using cuda_host::Work;

namespace {

/// As on GPUs: lower numbers go first.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) runtime().last = error;
  return error;
}

/// A call of the runtime: it does nothing after a sticky error, or in a host function.
template <class Body>
cudaError_t called(Body&& body) {
  const Runtime::Call call = runtime().call();
  return noted(call.error != cudaSuccess ? call.error : body());
}

/// The same for work queued in a stream. Work for the default stream is refused, because it would
/// wait for all others.
template <class Body>
cudaError_t on_stream(cudaStream_t stream, Body&& body) {
  return called([&]() -> cudaError_t {
    if (runtime().streams.count(stream) == 0) return cudaErrorInvalidResourceHandle;
    return body();
  });
}

bool all_done() {
  const auto& all = runtime().streams;
  return std::all_of(all.begin(), all.end(), [](const CUstream_st* stream) {
    return stream->device != current_device() || stream->queue.empty();
  });
}

/// A thread must not wait for work that it only captures. Captures are in relaxed mode, so another
/// thread, such as that of a second rank on the device, may wait for its own work meanwhile.
cudaError_t wait_host(const std::function<bool()>& done) {
  for (const CUstream_st* stream : runtime().streams)
    if (stream->capture != nullptr && stream->capture->capturer == std::this_thread::get_id())
      return cudaErrorStreamCaptureUnsupported;
  return runtime().until(done);
}

/// Also after a sticky error, so that a test can start over.
cudaError_t freed(void* pointer, bool pinned) {
  const Runtime::Call call = runtime().call();
  if (pointer == nullptr || call.error == cudaErrorNotPermitted) return call.error;
  return noted(runtime().give(pointer, pinned));
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = runtime().settings.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  return called([&] {
    const auto& settings = runtime().settings;
    *count = settings.no_device != 0 ? 0 : settings.devices;
    return static_cast<cudaError_t>(settings.no_device);
  });
}
cudaError_t cudaSetDevice(int device) {
  return called([&] {
    if (device < 0 || device >= runtime().settings.devices) return cudaErrorInvalidDevice;
    current_device() = device;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return called([&] {
    const auto& settings = runtime().settings;
    if (device < 0 || device >= settings.devices) return cudaErrorInvalidDevice;
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "emulated GPU");
    properties->totalGlobalMem = settings.memory_bytes;
    properties->major = settings.compute_capability / 10;
    properties->minor = settings.compute_capability % 10;
    properties->multiProcessorCount = 4;
    properties->l2CacheSize = 1 << 16;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  *value = attribute == cudaDevAttrComputeCapabilityMajor   ? properties.major
           : attribute == cudaDevAttrComputeCapabilityMinor ? properties.minor
           : attribute == cudaDevAttrMultiProcessorCount    ? properties.multiProcessorCount
                                                            : 227 * 1024;
  return error;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return called([&] {
    if (device < 0 || device >= runtime().settings.devices) return cudaErrorInvalidDevice;
    std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", 16 + device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return called([] { return wait_host(all_done); });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = kLeastPriority, *greatest = kGreatestPriority;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  const Runtime::Call call = runtime().call();
  return std::exchange(runtime().last, runtime().sticky);
}
cudaError_t cudaPeekAtLastError() {
  const Runtime::Call call = runtime().call();
  return runtime().last;
}
const char* cudaGetErrorName(cudaError_t error) {
#define CUDA_HOST_NAME(name, value) \
  if (error == (value)) return #name;
  CUDA_HOST_ERRORS(CUDA_HOST_NAME)
#undef CUDA_HOST_NAME
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const bool told = error != cudaSuccess && error == runtime().sticky;
  return told ? runtime().failure.c_str() : cudaGetErrorName(error);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return called([&] {
    *total = runtime().settings.memory_bytes;
    *free = *total - runtime().used(current_device());
    return cudaSuccess;
  });
}
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return called([&] {
    const int device = current_device();
    *pointer = nullptr;
    if (runtime().used(device) + bytes > runtime().settings.memory_bytes)
      return cudaErrorMemoryAllocation;
    ++runtime().counts.allocations;
    *pointer = runtime().take(bytes, device);
    return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
cudaError_t cudaFree(void* pointer) {
  return freed(pointer, false);
}
/// The double does not support memory that belongs to a graph.
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return on_stream(stream, [&]() -> cudaError_t {
    *pointer = nullptr;
    if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    return cudaMalloc(pointer, bytes);
  });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return on_stream(stream, [&]() -> cudaError_t {
    if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    runtime().push(stream, {"free", [=] { runtime().drop(pointer); }, {}, {}});
    return cudaSuccess;
  });
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return called([&] {
    *pointer = runtime().take(bytes, -1);
    return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* pointer) {
  return freed(pointer, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return on_stream(stream, [&] {
    if (width == 0 || height == 0) return cudaSuccess;
    if (!runtime().inside(to, (height - 1) * to_pitch + width) ||
        !runtime().inside(from, (height - 1) * from_pitch + width))
      return cudaErrorInvalidValue;
    ++runtime().counts.copies;
    const auto work = [=] {
      for (size_t row = 0; row < height; ++row)
        std::memmove(static_cast<char*>(to) + row * to_pitch,
                     static_cast<const char*>(from) + row * from_pitch, width);
    };
    runtime().push(stream, {"copy", work, {}, {}});
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return on_stream(stream, [&] {
    if (!runtime().inside(at, bytes)) return cudaErrorInvalidValue;
    runtime().push(stream, {"memset", [=] { std::memset(at, value, bytes); }, {}, {}});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return called([&] {
    // The double does not support streams that wait for the default stream.
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = new CUstream_st;
    (*stream)->device = current_device();
    (*stream)->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
    runtime().streams.insert(*stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
/// Waits, unlike the toolkit's function: nobody can use the stream any more.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Runtime::Call call = runtime().call();
  if (runtime().streams.count(stream) == 0) return cudaErrorInvalidResourceHandle;
  runtime().until([&] { return stream->queue.empty(); });
  runtime().streams.erase(stream);
  delete stream;
  return call.error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return on_stream(stream, [&] { return wait_host([&] { return stream->queue.empty(); }); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return on_stream(stream, [&] {
    runtime().run_some();
    return stream->queue.empty() ? runtime().sticky : cudaErrorNotReady;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return on_stream(stream, [&] {
    runtime().push(stream, {"host function", [=] { function(data); }, {}, {}});
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return called([&] {
    *event = new CUevent_st;
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Runtime::Call call = runtime().call();
  delete event;
  return call.error;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return on_stream(stream, [&] {
    event->last = std::make_shared<Gate>();
    event->capture = stream->capture;
    runtime().push(stream, {"record", {}, {}, event->last});
    return cudaSuccess;
  });
}
/// For an event that was never recorded it waits for nothing, as on a GPU.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return on_stream(stream, [&] {
    ++runtime().counts.event_waits;
    if (event->last == nullptr) return cudaSuccess;
    if (stream->capture == nullptr) stream->capture = event->capture;  // joins the capture
    if (stream->capture != event->capture) return cudaErrorStreamCaptureUnsupported;
    runtime().push(stream, {"wait for an event", {}, event->last, {}});
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return called([&] {
    runtime().run_some();
    return event->last == nullptr || event->last->open ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return called(
      [&] { return wait_host([&] { return event->last == nullptr || event->last->open; }); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return called([&] {
    for (const cudaEvent_t event : {begin, end}) {
      if (event->last == nullptr) return cudaErrorInvalidResourceHandle;
      if (!event->last->open) return cudaErrorNotReady;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->last->opened - begin->last->opened).count() +
        static_cast<float>(1e3 * (end->last->spent - begin->last->spent));
    return cudaSuccess;
  });
}
}
