#include "device/device.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace viaduct {

std::string_view memory_tag_name(MemoryTag tag) {
  static constexpr std::string_view kNames[kMemoryTags] = {
      "weights", "derived weights",   "main gradients", "master weights",
      "moments", "saved activations", "activations",    "workspace",
      "batch",   "kv cache",          "other"};
  return kNames[static_cast<size_t>(tag)];
}

Device::~Device() = default;

Tensor Device::allocate(DType dtype, const Shape& shape, MemoryTag tag) {
  const int64_t bytes = std::max<int64_t>(1, shape.elements() * dtype_bytes(dtype));
  void* data = take(bytes, tag);
  const int64_t id = next_id_++;
  account(tag, bytes);
  if (record_ != nullptr) record_->allocate(id, bytes, memory_tag_name(tag));
  auto storage = std::make_shared<Storage>(data, bytes, [this, id, tag](Storage& s) {
    account(tag, -s.bytes());
    if (record_ != nullptr) record_->release(id, s.bytes(), memory_tag_name(tag));
    give(s.data(), s.bytes());
  });
  return Tensor(std::move(storage), dtype, shape);
}

void Device::account(MemoryTag tag, int64_t bytes) {
  memory_.bytes_by_tag.resize(kMemoryTags);
  memory_.bytes_by_tag[static_cast<size_t>(tag)] += bytes;
  memory_.bytes_in_use += bytes;
  if (memory_.bytes_in_use > memory_.peak_bytes) {
    memory_.peak_bytes = memory_.bytes_in_use;
    memory_.peak_bytes_by_tag = memory_.bytes_by_tag;
  }
}

void Device::reset_peak() {
  memory_.peak_bytes = memory_.bytes_in_use;
  memory_.peak_bytes_by_tag = memory_.bytes_by_tag;
}

int Device::stream(std::string_view name) {
  return has_side_streams() ? order_.stream(name) : kComputeStream;
}

int64_t Device::launched(int stream) {
  const int64_t position = order_.launched(stream);
  if (record_ != nullptr) record_->stream_call({.stream = stream, .position = position});
  return position;
}

Event Device::record_event(int stream) {
  Event event = order_.event(stream);
  if (record_ != nullptr) event.calls = static_cast<int64_t>(record_->stream_calls().size());
  return event;
}

void Device::wait(int stream, const Event& event) {
  const bool behind = order_.is_behind(stream, event);
  const int64_t position = behind ? order_.position(stream) : order_.launched(stream);
  if (record_ != nullptr) {
    record_->stream_call({.stream = stream,
                          .from_stream = event.stream,
                          .position = position,
                          .from_calls = event.calls,
                          .takes_position = !behind});
  }
  if (behind) return;
  if (record_ != nullptr) record_->edge({event.stream, event.position, stream, position});
  enqueue_wait(stream, event);
  order_.waited(stream, event);
}

void Device::enqueue_wait(int stream, const Event& event) {
  fail<DeviceError>("stream {} of a device without side streams: cannot wait for stream {}", stream,
                    event.stream);
}

void Device::hold(int stream, const Tensor& tensor) {
  if (stream != kComputeStream && tensor) order_.hold(stream, tensor);
}

void Device::copy(const Tensor& from, const Tensor& to, int stream) {
  VIADUCT_CHECK(
      ShapeError, from.bytes() == to.bytes() && from.is_contiguous() && to.is_contiguous(),
      "copy: expected contiguous tensors of one size, got {} to {}", describe(from), describe(to));
  static_cast<void>(stream);
  if (from.raw() != to.raw() && from.bytes() > 0)
    std::memmove(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
}

double host_read(Device& device, const Tensor& tensor, std::string_view reason,
                 double value_on_sim) {
  if (device.record() != nullptr)
    device.record()->host_read(std::string(reason), device.record_event(kComputeStream).position);
  if (!device.executes()) return value_on_sim;
  VIADUCT_CHECK(
      ShapeError,
      tensor.elements() >= 1 && (tensor.dtype() == DType::f32 || tensor.dtype() == DType::f64),
      "host_read ({}): expected an f32 or f64 element, got {}", reason, describe(tensor));
  Tensor source = tensor.view({tensor.elements()}).slice(0, 0, 1);
  Tensor host = host_tensor(tensor.dtype(), {1});
  device.copy_to_host(source, host);
  return tensor.dtype() == DType::f64 ? *host.data<double>() : *host.data<float>();
}

}  // namespace viaduct
